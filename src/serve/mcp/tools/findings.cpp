// SPDX-License-Identifier: Apache-2.0
// `findings`: the verdicts, one line each; `finding`: one of them with its evidence.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/text.h"
#include "model/events/collective.h"
#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/finding_ids.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kUsualFindings = 20;
constexpr size_t kMostEvidence = 24;
constexpr size_t kMostEvents = 8;

std::vector<std::string_view> cause_names() {
  return {
#define STALLTRACE_CAUSE_NAME(enumerator, name) name,
      STALLTRACE_CAUSES(STALLTRACE_CAUSE_NAME)
#undef STALLTRACE_CAUSE_NAME
  };
}

std::vector<std::string_view> severity_names() {
  std::vector<std::string_view> names;
  for (const Severity severity : kSeverities) {
    names.push_back(to_text(severity));
  }
  return names;
}

Json link_of(const LinkEndpoints& link) {
  Json json = Json::object();
  if (link.src_rank) {
    json.set("src_rank", *link.src_rank);
  }
  if (link.dst_rank) {
    json.set("dst_rank", *link.dst_rank);
  }
  if (link.src) {
    json.set("src", recorded_text(format_endpoint(*link.src)));
  }
  if (link.dst) {
    json.set("dst", recorded_text(format_endpoint(*link.dst)));
  }
  return json;
}

Json row_of(const Report& report, const Finding& finding, const std::string& id) {
  const int64_t zero_ns = report.range.from_ns;
  Json json = Json::object({{"id", id},
                            {"cause", to_text(finding.cause)},
                            {"severity", to_text(finding.severity)},
                            {"confidence_percent", std::lround(finding.confidence * 100)}});
  if (finding.culprit) {
    json.set("culprit", rank_of(*finding.culprit));
  }
  if (finding.link) {
    json.set("link", link_of(*finding.link));
  }
  if (finding.comm_id_hash != 0) {
    json.set("communicator", format_hash(finding.comm_id_hash));
  }
  if (finding.attempt && report.attempts.size() > 1) {
    json.set("attempt", *finding.attempt);
  }
  json.set("op", to_text(finding.op));
  json.set("instances_affected", finding.collectives_affected);
  json.set("ended_job", finding.ended_job);
  json.set("lost_ms", ms(static_cast<int64_t>(finding.stall_ms * 1e6)));
  json.set("from", time_at(finding.window.from_ns, zero_ns));
  json.set("to", time_at(finding.window.to_ns, zero_ns));
  json.set("summary", report_text(finding.summary, 600));
  return json;
}

std::vector<schema::Field> row_fields() {
  const Json link = schema::object({schema::optional("src_rank", schema::integer("the sender")),
                                    schema::optional("dst_rank", schema::integer("the receiver")),
                                    schema::optional("src", recorded_text_schema()),
                                    schema::optional("dst", recorded_text_schema())});
  return {schema::required("id", schema::text("for the tool finding")),
          schema::required("cause", schema::one_of(cause_names())),
          schema::required("severity", schema::one_of(severity_names())),
          schema::required("confidence_percent", schema::integer()),
          schema::optional("culprit", rank_schema("the rank to blame")),
          schema::optional("link", link),
          schema::optional("communicator", schema::text()),
          schema::optional("attempt", schema::integer("of the job, from 1")),
          schema::required("op", schema::text()),
          schema::required("instances_affected", schema::integer()),
          schema::required("ended_job", schema::boolean()),
          schema::required("lost_ms", schema::number("that the job lost")),
          schema::required("from", time_schema()),
          schema::required("to", time_schema()),
          schema::required("summary", report_text_schema())};
}

struct Chosen {
  std::vector<const Finding*> findings;
  std::vector<std::string> ids;
};

Chosen choose(const Report& report, const Json& arguments) {
  const std::vector<std::string> ids = finding_ids(report.findings);
  const std::string cause = text_of(arguments, "cause");
  const std::optional<int64_t> rank = integer_of(arguments, "rank");
  const auto concerns = [&](const Finding& finding) {
    return (finding.culprit && finding.culprit->rank == rank) ||
           (finding.link && (finding.link->src_rank == rank || finding.link->dst_rank == rank));
  };
  Chosen chosen;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Finding& finding = report.findings[i];
    if ((cause.empty() || to_text(finding.cause) == cause) && (!rank || concerns(finding))) {
      chosen.findings.push_back(&finding);
      chosen.ids.push_back(ids[i]);
    }
  }
  return chosen;
}

std::string_view no_findings_text(const Report& report, std::string_view healthy) {
  if (!report.findings.empty()) {
    return "No finding matches these arguments.";
  }
  return healthy != "not_known" ? "No findings: nothing took longer than the job's own usual times allow."
                                : "No findings, but the job's health is not known: see the notes of health.";
}

Result<Answer> call_findings(Recordings& recordings, const Json& arguments) {
  ST_ASSIGN(const TimeWindow window, window_of(arguments));
  ST_ASSIGN(const std::shared_ptr<Snapshot> snapshot, recordings.snapshot());
  ST_ASSIGN(const std::shared_ptr<const Report> report, snapshot->report(window));
  ST_ASSIGN(const Recordings::Gathered* gathered, recordings.gather(false));
  const Chosen chosen = choose(*report, arguments);
  const std::string_view healthy = health_word(*report, gathered);
  Json data = Json::object({{"healthy", healthy},
                            {"judged", range_of_times(report->judged_range, report->range.from_ns)},
                            {"judged_collectives", report->judged}});
  Json next = Json::array();
  if (!chosen.ids.empty()) {
    Json one = Json::object({{"id", chosen.ids.front()}});
    for (const char* name : {"from", "to"}) {
      if (const Json* given = arguments.find(name)) {
        one.set(name, *given);
      }
    }
    next.push_back(hint("finding", std::move(one), "its evidence and its remedy"));
  } else {
    next.push_back(hint("slowest", Json::object(), "what took longest all the same"));
  }
  data.set("next", std::move(next));
  add_page(data, "findings", chosen.ids.size(), page_of(arguments, kUsualFindings),
           [&](size_t i) { return row_of(*report, *chosen.findings[i], chosen.ids[i]); });
  if (chosen.ids.empty()) {
    return Answer{std::move(data), std::string(no_findings_text(*report, healthy))};
  }
  const Finding& first = *chosen.findings.front();
  return Answer{std::move(data),
                fmt::format("{}; the first is {} ({}), which cost {}.",
                            count_of(static_cast<int64_t>(chosen.ids.size()), "finding"), to_text(first.cause),
                            to_text(first.severity), format_duration(static_cast<int64_t>(first.stall_ms * 1e6)))};
}

Json evidence_of(const Evidence& evidence) {
  Json json = Json::object({{"kind", evidence.kind}, {"count", evidence.count}, {"text", report_text(evidence.text)}});
  if (!evidence.events.empty()) {
    json.set("events", first_of(evidence.events.size(), kMostEvents,
                                [&](size_t i) { return Json(format_event_id(evidence.events[i])); }));
  }
  return json;
}

/// The finding's most expensive call, which `why` takes.
std::optional<EventId> call_in(const Finding& finding) {
  const auto calls = std::ranges::find_if(finding.evidence, [](const Evidence& one) {
    return one.kind == EventTraits<Collective>::kTable && !one.events.empty();
  });
  return calls == finding.evidence.end() ? std::nullopt : std::optional(calls->events.front());
}

/// A time in the middle of its most expensive stall: no rank may be left inside at the end of the window.
int64_t middle_of_stall(const Finding& finding) {
  const auto longest = std::ranges::max_element(finding.lost, {}, &TimeRange::length);
  const TimeRange& stall = longest == finding.lost.end() ? finding.window : *longest;
  return stall.from_ns + stall.length() / 2;
}

Json next_after(const Finding& finding, int64_t zero_ns) {
  const auto second = [&](int64_t ns) { return fmt::format("+{}us", std::max<int64_t>(0, ns - zero_ns) / 1000); };
  // A wait begins after the first arrivals: these belong to it.
  constexpr int64_t kMarginNs = 100 * kNsPerMs;
  const Json window = Json::object(
      {{"from", second(finding.window.from_ns - kMarginNs)}, {"to", second(finding.window.to_ns + kMarginNs)}});
  Json next = Json::array();
  if (const std::optional<EventId> call = call_in(finding)) {
    next.push_back(hint("why", Json::object({{"event", format_event_id(*call)}}), "its most expensive instance"));
  }
  if (finding.link) {
    next.push_back(hint("links", window, "the link's counters at that time, beside the others'"));
  }
  if (finding.culprit && finding.culprit->rank) {
    Json arguments = window;
    arguments.set("rank", *finding.culprit->rank);
    next.push_back(hint("ranks", arguments, "what the rank's threads did at that time"));
    next.push_back(hint("stacks", std::move(arguments), "where it was in its Python program, if that was recorded"));
  }
  next.push_back(hint("who_waits", Json::object({{"time", second(middle_of_stall(finding))}}),
                      "who waited for whom in the middle of its longest stall"));
  return next;
}

Result<Answer> call_finding(Recordings& recordings, const Json& arguments) {
  ST_ASSIGN(const TimeWindow window, window_of(arguments));
  ST_ASSIGN(const std::shared_ptr<Snapshot> snapshot, recordings.snapshot());
  ST_ASSIGN(const std::shared_ptr<const Report> report, snapshot->report(window));
  const std::vector<std::string> ids = finding_ids(report->findings);
  const auto found = std::ranges::find(ids, text_of(arguments, "id"));
  if (found == ids.end()) {
    return fail(fmt::format("there is no finding '{}'", text_of(arguments, "id")),
                "findings lists them; give the same from and to as there", ErrorKind::kNotFound);
  }
  const Finding& finding = report->findings[static_cast<size_t>(found - ids.begin())];
  Json data = row_of(*report, finding, *found);
  data.set("remedy", report_text(finding.remedy));
  data.set("evidence", first_of(finding.evidence.size(), kMostEvidence,
                                [&](size_t i) { return evidence_of(finding.evidence[i]); }));
  data.set("evidence_total", finding.evidence.size());
  data.set("next", next_after(finding, report->range.from_ns));
  return Answer{std::move(data),
                fmt::format("{} ({}, confidence {:.0f} %), {} of waiting in {}.", to_text(finding.cause),
                            to_text(finding.severity), finding.confidence * 100,
                            format_duration(static_cast<int64_t>(finding.stall_ms * 1e6)),
                            count_of(finding.collectives_affected, "instance"))};
}

}  // namespace

Tool findings_tool() {
  return {
      .name = "findings",
      .title = "Findings",
      .description =
          "What stalled, which rank or link is to blame, the cause, and what it cost; most expensive first. "
          "With from and to only that time is judged.",
      .input = schema::object(fields({{schema::optional("cause", schema::one_of(cause_names())),
                                       schema::optional("rank", schema::integer("to blame, or an end of the link", 0))},
                                      window_arguments(),
                                      page_arguments(kUsualFindings, 200)}),
                              {}, true),
      .output = schema::object(fields(
          {{schema::required("healthy", schema::one_of({"yes", "no", "not_known"})),
            schema::required("judged", range_schema()), schema::required("judged_collectives", schema::integer())},
           page_fields("findings", schema::object(row_fields())),
           {next_field()}})),
      .call = call_findings};
}

Tool finding_tool() {
  const Json evidence =
      schema::object({schema::required("kind", schema::text("a tracepoint, a table or a rule")),
                      schema::required("count", schema::integer()), schema::required("text", report_text_schema()),
                      schema::optional("events", schema::list_of(schema::text()))});
  return {
      .name = "finding",
      .title = "One finding with its evidence",
      .description = "All evidence of one finding, and what to do about it.",
      .input = schema::object(
          fields({{schema::required("id", schema::text("as findings gives it", 100))}, window_arguments()}), {}, true),
      .output = schema::object(fields(
          {row_fields(),
           {schema::required("remedy", report_text_schema()), schema::required("evidence", schema::list_of(evidence)),
            schema::required("evidence_total", schema::integer()), next_field()}})),
      .call = call_finding};
}

}  // namespace stalltrace::serve::mcp
