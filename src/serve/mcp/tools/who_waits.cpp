// SPDX-License-Identifier: Apache-2.0
// `who_waits`: who waited for whom at one time.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/text.h"
#include "serve/mcp/tools/instances.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kUsualInstances = 8;
constexpr size_t kMostRanks = 16;
constexpr size_t kMostEdges = 32;
constexpr int64_t kUsualWindowMs = 500;

Json open_instance(const analysis::JobView& job, const analysis::OpenInstance& open, int64_t time_ns) {
  const int64_t zero_ns = job.range().from_ns;
  Json json = Json::object({{"instance", instance_json(job, open.times, std::nullopt)}});
  json.set("inside", first_of(open.inside.size(), kMostRanks, [&](size_t i) {
             return Json::object(
                 {{"who", rank_of(job, open.inside[i].member)}, {"waits_ms", ms(time_ns - open.inside[i].since_ns)}});
           }));
  json.set("inside_total", open.inside.size());
  json.set("awaited", first_of(open.awaited.size(), kMostRanks, [&](size_t i) {
             Json one = Json::object({{"who", rank_of(job, open.awaited[i].member)}});
             if (open.awaited[i].arrival_ns) {
               one.set("arrives", time_at(*open.awaited[i].arrival_ns, zero_ns));
             }
             return one;
           }));
  json.set("awaited_total", open.awaited.size());
  return json;
}

Json edge_of(const analysis::JobView& job, const analysis::WaitEdge& edge) {
  Json json = Json::object({{"waiter", rank_of(job, edge.waiter)},
                            {"awaited", rank_of(job, edge.awaited)},
                            {"reason", to_text(edge.reason)}});
  if (edge.samples > 0) {
    json.set("samples", edge.samples);
  }
  if (edge.covered_ns > 0) {
    json.set("covered_ms", ms(edge.covered_ns));
  }
  return json;
}

Json transfer_of(const analysis::JobView& job, const analysis::TransferWaits& transfer) {
  const std::vector<analysis::WaitEdge>& edges = transfer.graph.edges;
  Json json = Json::object({{"window", range_of_times(transfer.window, job.range().from_ns)}});
  json.set("edges", first_of(edges.size(), kMostEdges, [&](size_t i) { return edge_of(job, edges[i]); }));
  json.set("edges_total", edges.size());
  // Where the network held data back, no rank is to blame.
  const bool by_network = std::ranges::any_of(edges, [](const analysis::WaitEdge& edge) {
    return edge.reason == analysis::WaitReason::kLoss || edge.reason == analysis::WaitReason::kInFlight;
  });
  if (transfer.graph.sinks.size() == 1 && !by_network) {
    json.set("others_wait_for", rank_of(job, transfer.graph.sinks.front()));
  }
  return json;
}

std::string_view wait_kind(const analysis::WaitsAtTime& waits) {
  if (waits.instances.empty()) {
    return "no rank was inside a collective";
  }
  const bool awaited = std::ranges::any_of(waits.instances, [](const auto& open) { return !open.awaited.empty(); });
  if (!awaited) {
    return "all ranks had arrived: they waited for the transfer";
  }
  if (!waits.transfer) {
    return "ranks waited for others that had not arrived";
  }
  return waits.held_up_by.empty() ? "ranks waited for a transfer that all its ranks had entered"
                                  : "ranks waited for others that had not arrived, and for a transfer";
}

Result<Answer> call(Recordings& recordings, const Json& arguments) {
  ST_ASSIGN(const std::shared_ptr<Snapshot> snapshot, recordings.snapshot());
  ST_ASSIGN(analysis::JobView * job, snapshot->job());
  ST_ASSIGN(const std::optional<TimePoint> asked, time_of(arguments, "time"));
  const int64_t zero_ns = job->range().from_ns;
  const int64_t time_ns = asked ? asked->utc_ns(zero_ns) : last_wait_ns(*job);
  if (time_ns < zero_ns || time_ns > job->range().to_ns) {
    return fail("time is not in the recording",
                fmt::format("it lasts {} from {}", format_duration(job->range().length()), format_utc(zero_ns)),
                ErrorKind::kNotFound);
  }
  const int64_t half_ns = integer_of(arguments, "window_ms").value_or(kUsualWindowMs) * kNsPerMs / 2;
  ST_ASSIGN(const analysis::WaitsAtTime waits, waits_at(*job, time_ns, half_ns));
  Json data = Json::object({{"time", time_at(time_ns, zero_ns)}});
  data.set("held_up_by",
           first_of(waits.held_up_by.size(), kMostRanks, [&](size_t i) { return rank_of(*job, waits.held_up_by[i]); }));
  data.set("held_up_by_total", waits.held_up_by.size());
  if (waits.transfer) {
    data.set("transfer", transfer_of(*job, *waits.transfer));
  }
  data.set("unknown_ends", waits.uncertain);
  Json next = Json::array();
  const std::string at = fmt::format("+{}us", (time_ns - zero_ns) / 1000);
  if (waits.instances.empty()) {
    next.push_back(hint("slowest", Json::object(), "times at which ranks were inside collectives for long"));
  }
  if (!waits.held_up_by.empty()) {
    if (const std::optional<int32_t> rank = job->cluster().member(waits.held_up_by.front()).rank) {
      next.push_back(hint("ranks", Json::object({{"rank", *rank}}), "what the awaited rank's threads did"));
    }
  }
  next.push_back(hint("stacks", Json::object({{"time", at}}), "where the ranks were in their Python programs"));
  next.push_back(hint("findings", Json::object(), "what the analysis reports of it"));
  data.set("next", std::move(next));
  add_page(data, "instances", waits.instances.size(), page_of(arguments, kUsualInstances),
           [&](size_t i) { return open_instance(*job, waits.instances[i], time_ns); });
  return Answer{std::move(data), fmt::format("At {}: {}; {} open.", format_utc(time_ns), wait_kind(waits),
                                             count_of(static_cast<int64_t>(waits.instances.size()), "instance"))};
}

Json output() {
  const Json inside = schema::object(
      {schema::required("who", rank_schema()), schema::required("waits_ms", schema::number("since its arrival"))});
  const Json awaited = schema::object({schema::required("who", rank_schema()),
                                       schema::optional("arrives", time_schema("missing: never, as far as recorded"))});
  const Json row = schema::object({schema::required("instance", schema::object(instance_fields())),
                                   schema::required("inside", schema::list_of(inside, "ranks inside then, by arrival")),
                                   schema::required("inside_total", schema::integer()),
                                   schema::required("awaited", schema::list_of(awaited, "ranks not arrived by then")),
                                   schema::required("awaited_total", schema::integer())});
  const Json edge = schema::object(
      {schema::required("waiter", rank_schema()), schema::required("awaited", rank_schema()),
       schema::required("reason", schema::text()), schema::optional("samples", schema::integer("of the connection")),
       schema::optional("covered_ms", schema::number("of the window"))});
  const Json transfer = schema::object(
      {schema::required("window", range_schema()), schema::required("edges", schema::list_of(edge)),
       schema::required("edges_total", schema::integer()),
       schema::optional("others_wait_for", rank_schema("the one rank that others wait for and that waits for none; "
                                                       "missing where a link holds data back"))},
      "of the oldest instance that all its ranks have entered: who waits for whom on the network, by the state of the "
      "connections");
  return schema::object(fields(
      {{schema::required("time", time_schema()),
        schema::required("held_up_by", schema::list_of(rank_schema(),
                                                       "awaited, and inside no collective themselves: "
                                                       "the chains of waits end at these; not those that are "
                                                       "awaited only behind a transfer that is under way")),
        schema::required("held_up_by_total", schema::integer()), schema::optional("transfer", transfer),
        schema::required("unknown_ends", schema::integer("earlier instances whose end was not reported: left out"))},
       page_fields("instances", row),
       {next_field()}}));
}

}  // namespace

Tool who_waits_tool() {
  return {
      .name = "who_waits",
      .title = "Who waits for whom at a time",
      .description =
          "The collectives that ranks were inside at one time, who was inside, who had not arrived, and who "
          "holds them up; where all have arrived, which rank waits for which on the network. Without a time: the end "
          "of the longest hang, or of the recording.",
      .input = schema::object(
          fields({{schema::optional("time", schema::text("UTC, or +2s from the first collective", 64)),
                   schema::optional("window_ms",
                                    schema::integer("network state is read around the time; usually 500", 1, 60'000))},
                  page_arguments(kUsualInstances, 64)}),
          {}, true),
      .output = output(),
      .call = call};
}

}  // namespace stalltrace::serve::mcp
