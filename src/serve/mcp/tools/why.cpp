// SPDX-License-Identifier: Apache-2.0
// `why`: the verdicts on one instance, as `explain --instance` gives them.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "model/parse/event_name.h"
#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/finding_ids.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr size_t kMostCalls = 24;  // half of them the first to arrive, half the last
constexpr size_t kMostAbsent = 16;

Json call_of(const InspectedCall& call, int64_t zero_ns) {
  Json json = Json::object({{"who", recorded_text(call.who)}, {"arrival", time_at(call.arrival_ns, zero_ns)}});
  if (call.end_ns) {
    json.set("duration_ms", ms(*call.end_ns - call.arrival_ns));
  }
  json.set("end_unobserved", call.unobserved);
  return json;
}

Json part_of(const InspectedPart& part, int64_t zero_ns, const std::vector<std::string>& ids) {
  Json json = Json::object({{"part", part.name},
                            {"stall", part.stall},
                            {"reason", to_text(part.reason)},
                            {"why", report_text(part.why)},
                            {"time", range_of_times(part.time, zero_ns)},
                            {"measured_ms", ms(part.value_ns)},
                            {"limit_ms", ms(part.limit_ns)},
                            {"lost_ms", ms(part.lost_ns)}});
  if (part.finding && *part.finding >= 1 && static_cast<size_t>(*part.finding) <= ids.size()) {
    json.set("finding", ids[static_cast<size_t>(*part.finding) - 1]);
  }
  Json causes = Json::array();
  for (const InspectedCause& cause : part.causes) {
    Json one = Json::object({{"cause", to_text(cause.cause)},
                             {"chosen", cause.chosen},
                             {"applies", cause.applies},
                             {"dismissed", cause.dismissed}});
    if (cause.share) {
      one.set("covered_percent", std::lround(*cause.share * 100));
    }
    one.set("text", report_text(cause.text, 400));
    causes.push_back(std::move(one));
  }
  json.set("causes", std::move(causes));
  return json;
}

Json baseline_of(const InspectedLike& like) {
  return Json::object({{"instances", like.count},
                       {"enough", like.enough},
                       {"usual_ms", ms(like.usual_ns)},
                       {"median_ms", ms(like.median_ns)},
                       {"mad_ms", ms(like.mad_ns)},
                       {"transfer_limit_ms", ms(like.limit_ns)},
                       {"wait_limit_ms", ms(like.late_limit_ns)}});
}

/// The first and the last arrivals: those in the middle show least.
Json calls_of(const Inspection& inspection, int64_t zero_ns) {
  const std::vector<InspectedCall>& calls = inspection.calls;
  const bool all = calls.size() <= kMostCalls;
  Json rows = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (all || i < kMostCalls / 2 || i >= calls.size() - kMostCalls / 2) {
      rows.push_back(call_of(calls[i], zero_ns));
    }
  }
  return rows;
}

Json next_after(const Inspection& inspection, const Json& parts, int64_t zero_ns) {
  Json next = Json::array();
  for (const Json& part : *parts.values()) {
    if (const Json* finding = part.find("finding")) {
      next.push_back(hint("finding", Json::object({{"id", *finding}}), "the finding that it is part of"));
      break;
    }
  }
  if (!inspection.calls.empty()) {
    const int64_t last_ns = std::max<int64_t>(0, inspection.calls.back().arrival_ns - zero_ns);
    next.push_back(hint("who_waits", Json::object({{"time", fmt::format("+{}us", last_ns / 1000)}}),
                        "who waited for whom when the last rank arrived"));
  }
  return next;
}

Result<Answer> call(Recordings& recordings, const Json& arguments) {
  ST_ASSIGN(const std::shared_ptr<Snapshot> snapshot, recordings.snapshot());
  ST_ASSIGN(const std::vector<Node> nodes, snapshot->source().nodes());
  ST_ASSIGN(const EventId event, event_called(text_of(arguments, "event"), nodes));
  ST_ASSIGN(const std::shared_ptr<const Inspection> inspection, snapshot->inspect(event));
  ST_ASSIGN(const std::shared_ptr<const Report> report, snapshot->report());
  const int64_t zero_ns = report->range.from_ns;
  const std::vector<std::string> ids = finding_ids(report->findings);
  Json data = Json::object({{"event", format_event_id(inspection->event_id)},
                            {"op", to_text(inspection->op)},
                            {"size_bytes", inspection->bytes}});
  if (inspection->comm_id_hash != 0) {
    data.set("communicator", format_hash(inspection->comm_id_hash));
  }
  data.set("number", inspection->number);
  if (inspection->attempt) {
    data.set("attempt", *inspection->attempt);
  }
  data.set("warming_up", inspection->warming_up);
  data.set("wait_for_last_rank_ms", ms(inspection->late_ns));
  if (inspection->transfer_ns) {
    data.set("transfer_ms", ms(*inspection->transfer_ns));
  }
  Json parts = Json::array();
  for (const InspectedPart& part : inspection->parts) {
    parts.push_back(part_of(part, zero_ns, ids));
  }
  const auto stalls = std::ranges::count(inspection->parts, true, &InspectedPart::stall);
  data.set("is_stall", stalls > 0);
  data.set("next", next_after(*inspection, parts, zero_ns));
  data.set("parts", std::move(parts));
  data.set("baseline", baseline_of(inspection->like));
  data.set("calls", calls_of(*inspection, zero_ns));
  data.set("calls_total", inspection->calls.size());
  data.set("calls_truncated", inspection->calls.size() > kMostCalls);
  data.set("absent", first_of(inspection->absent.size(), kMostAbsent,
                              [&](size_t i) { return recorded_text(inspection->absent[i]); }));
  data.set("absent_total", inspection->absent.size());
  return Answer{std::move(data),
                fmt::format("{} of {}: {}. The others waited {} for the last rank{}.", to_text(inspection->op),
                            format_size(inspection->bytes), stalls > 0 ? "a stall" : "no stall",
                            format_duration(inspection->late_ns),
                            inspection->transfer_ns
                                ? fmt::format(", the transfer took {}", format_duration(*inspection->transfer_ns))
                                : ", the transfer has no known end")};
}

Json output() {
  const Json cause = schema::object(
      {schema::required("cause", schema::text()), schema::required("chosen", schema::boolean()),
       schema::required("applies", schema::boolean()), schema::required("dismissed", schema::boolean()),
       schema::optional("covered_percent", schema::integer("of the lost time, by its evidence; missing: none")),
       schema::required("text", report_text_schema("its evidence, or the evidence that it would need"))});
  const Json part = schema::object(
      {schema::required("part", schema::one_of({"late", "transfer", "absent"})),
       schema::required("stall", schema::boolean()), schema::required("reason", schema::text()),
       schema::required("why", report_text_schema()), schema::required("time", range_schema()),
       schema::required("measured_ms", schema::number()), schema::required("limit_ms", schema::number()),
       schema::required("lost_ms", schema::number()), schema::optional("finding", schema::text("id of its finding")),
       schema::required("causes", schema::list_of(cause))});
  const Json baseline = schema::object(
      {schema::required("instances", schema::integer()), schema::required("enough", schema::boolean()),
       schema::required("usual_ms", schema::number()), schema::required("median_ms", schema::number()),
       schema::required("mad_ms", schema::number("median absolute deviation")),
       schema::required("transfer_limit_ms", schema::number()), schema::required("wait_limit_ms", schema::number())});
  const Json one =
      schema::object({schema::required("who", recorded_text_schema()), schema::required("arrival", time_schema()),
                      schema::optional("duration_ms", schema::number("missing: no known end")),
                      schema::required("end_unobserved", schema::boolean())});
  return schema::object(
      {schema::required("event", schema::text()), schema::required("op", schema::text()),
       schema::required("size_bytes", schema::integer()), schema::optional("communicator", schema::text()),
       schema::required("number", schema::integer()), schema::optional("attempt", schema::integer()),
       schema::required("warming_up", schema::boolean()), schema::required("wait_for_last_rank_ms", schema::number()),
       schema::optional("transfer_ms", schema::number()), schema::required("is_stall", schema::boolean()),
       schema::required("parts", schema::list_of(part)), schema::required("baseline", baseline),
       schema::required("calls", schema::list_of(one, "by arrival: the first and the last ones")),
       schema::required("calls_total", schema::integer()), schema::required("calls_truncated", schema::boolean()),
       schema::required("absent", schema::list_of(recorded_text_schema())),
       schema::required("absent_total", schema::integer()), next_field()});
}

}  // namespace

Tool why_tool() {
  return {.name = "why",
          .title = "Why an instance is or is not a stall",
          .description =
              "For one collective: what was measured, the limits that it was compared with, and for each cause "
              "the evidence that was found or is missing. Takes an event id that slowest or finding gave.",
          .input = schema::object({schema::required("event", schema::text("NODE:NUMBER", 300))}, {}, true),
          .output = output(),
          .call = call};
}

}  // namespace stalltrace::serve::mcp
