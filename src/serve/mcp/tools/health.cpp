// SPDX-License-Identifier: Apache-2.0
// `health`: what was recorded, where, how completely, and whether the analysis found anything.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kUsualNodes = 32;
constexpr size_t kMostRecordings = 64;
constexpr size_t kMostNotes = 16;
constexpr size_t kMostLosses = 8;

Json recordings_of(const std::vector<Recordings::Info>& infos) {
  return first_of(infos.size(), kMostRecordings, [&](size_t i) {
    Json json = Json::object({{"recording", printable(infos[i].name)},
                              {"size_bytes", infos[i].size_bytes},
                              {"being_written", infos[i].being_written}});
    if (infos[i].problem) {
      json.set("problem", report_text(infos[i].problem->what + "; " + infos[i].problem->remedy));
    }
    return json;
  });
}

Json node_of_job(const analysis::JobView& job, const Node& node, const Report& report) {
  const int64_t zero_ns = job.range().from_ns;
  const analysis::Clock& clock = job.cluster().clock();
  const NodeId first = job.cluster().nodes().front().node_id;
  Json json = Json::object({{"node", recorded_text(node.name)},
                            {"node_id", node.node_id},
                            {"hostname", recorded_text(node.hostname)},
                            {"kernel", recorded_text(node.kernel, 80)},
                            {"agent_version", recorded_text(node.agent_version, 40)},
                            {"recorded_from", time_at(clock.to_common(node.node_id, node.started_ns), zero_ns)}});
  if (node.ended_ns) {
    json.set("recorded_to", time_at(clock.to_common(node.node_id, *node.ended_ns), zero_ns));
  }
  json.set("ranks", std::ranges::count(job.cluster().members(), node.node_id, &analysis::Member::node_id));
  json.set("clock_shift_ms", ms(clock.shift_ns(node.node_id)));
  json.set("clock_comparable", clock.comparable(first, node.node_id));
  json.set("missing_evidence", recorded_text(node.missing_evidence));
  Json losses = Json::array();
  for (const Loss& loss : report.losses) {
    if (loss.node_id == node.node_id && losses.size() < kMostLosses) {
      losses.push_back(Json::object({{"source", recorded_text(loss.source, 80)}, {"events", loss.count}}));
    }
  }
  json.set("losses", std::move(losses));
  return json;
}

Json findings_by_severity(const Report& report) {
  Json counts = Json::object();
  for (auto severity = kSeverities.rbegin(); severity != kSeverities.rend(); ++severity) {
    counts.set(to_text(*severity), std::ranges::count(report.findings, *severity, &Finding::severity));
  }
  return counts;
}

Json next_after(const Report& report) {
  Json next = Json::array();
  if (!report.findings.empty()) {
    next.push_back(hint("findings", Json::object(), "what stalled, where and why"));
  } else if (report.collectives > 0) {
    next.push_back(hint("slowest", Json::object(), "no finding; these took longest all the same"));
    next.push_back(hint("ranks", Json::object(), "who the others wait for most"));
  } else {
    next.push_back(hint("findings", Json::object(), "no collective was recorded: only a failed start could be found"));
  }
  return next;
}

Result<Answer> call(Recordings& recordings, const Json& arguments) {
  const std::vector<Recordings::Info> infos = recordings.list();
  const auto unreadable =
      std::ranges::count_if(infos, [](const Recordings::Info& info) { return info.problem.has_value(); });
  Json data = Json::object({{"recordings", recordings_of(infos)}, {"recordings_total", infos.size()}});
  if (unreadable > 0) {
    add_page(data, "nodes", 0, {}, [](size_t) { return Json(); });
    data.set("healthy", "not_known");
    return Answer{std::move(data), fmt::format("{} of {} recordings can't be read: nothing else works until they can.",
                                               unreadable, infos.size())};
  }
  ST_ASSIGN(const std::shared_ptr<Snapshot> snapshot, recordings.snapshot());
  ST_ASSIGN(const std::shared_ptr<const Report> report, snapshot->report());
  ST_ASSIGN(const analysis::JobView* job, snapshot->job());
  ST_ASSIGN(const Recordings::Gathered* gathered, recordings.gather(false));
  const std::string_view healthy = health_word(*report, gathered);
  data.set("healthy", healthy);
  data.set("findings", findings_by_severity(*report));
  data.set("ranks", report->ranks);
  data.set("collectives", report->collectives);
  data.set("judged_collectives", report->judged);
  data.set("recorded", range_of_times(report->range, report->range.from_ns));
  data.set("duration_s", seconds(report->range.length()));
  data.set("lost_events", report->lost_events);
  data.set("job_attempts", report->attempts.size());
  data.set("notes",
           first_of(report->notes.size(), kMostNotes, [&](size_t i) { return report_text(report->notes[i], 400); }));
  data.set("notes_total", report->notes.size());
  data.set("next", next_after(*report));
  const std::vector<Node>& nodes = job->cluster().nodes();
  add_page(data, "nodes", nodes.size(), page_of(arguments, kUsualNodes),
           [&](size_t i) { return node_of_job(*job, nodes[i], *report); });
  return Answer{std::move(data), fmt::format("{}, {}, {} collectives in {}; healthy: {}, {}.",
                                             count_of(report->nodes, "node"), count_of(report->ranks, "rank"),
                                             report->collectives, format_duration(report->range.length()), healthy,
                                             count_of(static_cast<int64_t>(report->findings.size()), "finding"))};
}

Json node_schema() {
  return schema::object(
      {schema::required("node", recorded_text_schema()), schema::required("node_id", schema::integer()),
       schema::required("hostname", recorded_text_schema()), schema::required("kernel", recorded_text_schema()),
       schema::required("agent_version", recorded_text_schema()), schema::required("recorded_from", time_schema()),
       schema::optional("recorded_to", time_schema("missing: the trace goes on, or was killed")),
       schema::required("ranks", schema::integer()),
       schema::required("clock_shift_ms", schema::number("added to the node's times to get the common clock")),
       schema::required("clock_comparable",
                        schema::boolean("false: across to this node a rank is called late only by more than the "
                                        "clock error, which the notes have")),
       schema::required("missing_evidence", recorded_text_schema("kinds of events that this node can't record")),
       schema::required("losses", schema::list_of(schema::object({schema::required("source", recorded_text_schema()),
                                                                  schema::required("events", schema::integer())}),
                                                  "events that could not be kept"))});
}

Json output() {
  const Json recording = schema::object({schema::required("recording", schema::text("its name in other tools")),
                                         schema::required("size_bytes", schema::integer()),
                                         schema::required("being_written", schema::boolean("a trace is running")),
                                         schema::optional("problem", report_text_schema("why it can't be read"))});
  std::vector<schema::Field> severities;
  for (auto severity = kSeverities.rbegin(); severity != kSeverities.rend(); ++severity) {
    severities.push_back(schema::required(std::string(to_text(*severity)), schema::integer()));
  }
  return schema::object(
      fields({{schema::required("recordings", schema::list_of(recording)),
               schema::required("recordings_total", schema::integer()),
               schema::required("healthy", schema::one_of({"yes", "no", "not_known"}, "no: there are findings")),
               schema::optional("findings", schema::object(std::move(severities))),
               schema::optional("ranks", schema::integer("that were recorded")),
               schema::optional("collectives", schema::integer("calls of all ranks")),
               schema::optional("judged_collectives", schema::integer()), schema::optional("recorded", range_schema()),
               schema::optional("duration_s", schema::number()), schema::optional("lost_events", schema::integer()),
               schema::optional("job_attempts", schema::integer("restarts, and other jobs")),
               schema::optional("notes", schema::list_of(report_text_schema(),
                                                         "limits of what can be known: missing ranks, "
                                                         "clock errors, losses")),
               schema::optional("notes_total", schema::integer())},
              page_fields("nodes", node_schema()),
              {next_field()}}));
}

}  // namespace

Tool health_tool() {
  return {.name = "health",
          .title = "Health of the job and of its recordings",
          .description =
              "Start here. Whether the job is healthy, how many findings there are, which nodes and ranks were "
              "recorded and when, what is missing (ranks, kinds of evidence, lost events), clock offsets.",
          .input = schema::object(page_arguments(kUsualNodes, 1000), {}, true),
          .output = output(),
          .call = call};
}

}  // namespace stalltrace::serve::mcp
