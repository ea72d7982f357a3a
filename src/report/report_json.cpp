// SPDX-License-Identifier: Apache-2.0
#include "report/report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "base/text.h"
#include "model/json/evidence_json.h"
#include "report/findings_text.h"

namespace stalltrace::report {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::optional<Endpoint>& endpoint) {
  return endpoint ? Json(format_endpoint(*endpoint)) : Json(nullptr);
}

Json to_json(const std::optional<Culprit>& culprit) {
  return culprit ? Json{{"node", culprit->node.empty() ? Json(nullptr) : Json(culprit->node)},
                        {"rank", or_null(culprit->rank)},
                        {"pid", culprit->pid == 0 ? Json(nullptr) : Json(culprit->pid)}}
                 : Json(nullptr);
}

Json to_json(const JobAttempt& attempt) {
  return {{"number", attempt.number},
          {"ranks", attempt.ranks},
          {"nodes", attempt.nodes},
          {"from_ns", attempt.range.from_ns},
          {"to_ns", attempt.range.to_ns},
          {"end", attempt.end},
          {"ended_by", to_json(attempt.ended_by)}};
}

Json to_json(const BenchmarkSummary& run) {
  return {{"name", run.name},
          {"file", run.file},
          {"line", run.line},
          {"ranks", run.nranks == 0 ? Json(nullptr) : Json(run.nranks)},
          {"hosts", run.hosts},
          {"results", run.results},
          {"smallest_bytes", run.smallest_bytes},
          {"largest_bytes", run.largest_bytes},
          {"peak_busbw_gbs", run.peak_busbw_gbs},
          {"peak_bytes", run.peak_bytes},
          {"wrong_results", run.wrong_results},
          {"ended", run.ended},
          {"failed", run.failed},
          {"remarks", run.remarks}};
}

Json to_json(const ProfileSummary& profile) {
  Json json{{"file", profile.file},
            {"rank", or_null(profile.rank)},
            {"world_size", or_null(profile.world_size)},
            {"backend", profile.backend.empty() ? Json(nullptr) : Json(profile.backend)},
            {"on_device", profile.on_device},
            {"steps", profile.steps},
            {"duration_ns", profile.duration_ns},
            {"compute_ns", profile.compute_ns},
            {"communication_ns", profile.communication_ns},
            {"exposed_ns", profile.exposed_ns},
            {"idle_ns", profile.idle_ns},
            {"collectives", Json::array()},
            {"more_collectives", profile.more_collectives},
            {"remarks", profile.remarks}};
  for (const TraceCollective& one : profile.collectives) {
    json["collectives"].push_back({{"op", one.op},
                                   {"process_group", one.process_group},
                                   {"datatype", one.datatype},
                                   {"elements", or_null(one.elements)},
                                   {"ordinal", or_null(one.ordinal)},
                                   {"calls", one.calls},
                                   {"total_ns", one.total_ns},
                                   {"exposed_ns", one.exposed_ns},
                                   {"shortest_ns", one.shortest_ns},
                                   {"longest_ns", one.longest_ns}});
  }
  return json;
}

Json to_json(const CaptureSummary& summary) {
  const PacketCapture& capture = summary.capture;
  Json json{
      {"file", capture.file},       {"from_ns", capture.started_ns},      {"duration_ns", capture.duration_ns},
      {"packets", capture.packets}, {"tcp_packets", capture.tcp_packets}, {"flows", capture.flows},
      {"missed", capture.missed},   {"too_big", capture.too_big},         {"least_mtu", or_null(capture.least_mtu)},
      {"remarks", summary.remarks}, {"troubled_flows", Json::array()},    {"more_flows", summary.more_flows}};
  for (const FlowSummary& one : summary.flows) {
    const PacketFlow& flow = one.flow;
    json["troubled_flows"].push_back({{"src", format_endpoint(flow.source)},
                                      {"dst", format_endpoint(flow.destination)},
                                      {"src_rank", or_null(one.src_rank)},
                                      {"dst_rank", or_null(one.dst_rank)},
                                      {"packets", flow.packets},
                                      {"payload_bytes", flow.payload_bytes},
                                      {"retransmits", flow.retransmits},
                                      {"lost_before", flow.lost_before},
                                      {"spurious", flow.spurious},
                                      {"duplicate_acks", flow.duplicate_acks},
                                      {"zero_window_ns", flow.zero_window_ns},
                                      {"resets", flow.resets},
                                      {"unacked_bytes", flow.unacked_bytes},
                                      {"unacked_ns", flow.unacked_ns},
                                      {"remarks", one.remarks}});
  }
  return json;
}

double rounded(double value, double steps) { return std::round(value * steps) / steps; }

Json to_json(const Finding& finding) {
  Json json{{"cause", to_text(finding.cause)},
            {"severity", to_text(finding.severity)},
            {"confidence", rounded(finding.confidence, 100)}};
  json["culprit"] = to_json(finding.culprit);
  json["link"] = nullptr;
  if (finding.link) {
    json["link"] = {{"src_rank", or_null(finding.link->src_rank)},
                    {"dst_rank", or_null(finding.link->dst_rank)},
                    {"src", to_json(finding.link->src)},
                    {"dst", to_json(finding.link->dst)}};
  }
  json["comm_id_hash"] = finding.comm_id_hash == 0 ? Json(nullptr) : Json(format_hash(finding.comm_id_hash));
  json["op"] = to_text(finding.op);
  json["collectives_affected"] = finding.collectives_affected;
  if (!finding.detected_ns) {  // the table of live findings does not have this column
    json["ended_job"] = finding.ended_job;
  }
  json["stall_ms"] = rounded(finding.stall_ms, 1000);
  json["window"] = {{"from_ns", finding.window.from_ns}, {"to_ns", finding.window.to_ns}};
  json["summary"] = finding.summary;
  json["evidence"] = Json::array();
  for (const Evidence& evidence : finding.evidence) {
    json["evidence"].push_back(evidence_to_json(evidence));
  }
  json["remedy"] = finding.remedy;
  if (finding.like) {
    json["like"] = {{"usual_ns", finding.like->usual_ns},
                    {"took_ns", finding.like->took_ns},
                    {"longest_ns", finding.like->longest_ns}};
  }
  if (finding.detected_ns) {
    json["detected_ns"] = *finding.detected_ns;
    json["ended_ns"] = finding.ended_ns ? Json(*finding.ended_ns) : Json(nullptr);
  }
  return json;
}

Json to_json(const ComparedClock& clock) {
  return {{"node", clock.node},
          {"reference", clock.reference},
          {"offset_ns", clock.offset_ns},
          {"drift_ppm", rounded(clock.drift_ppm, 1000)},
          {"error_ns", or_null(clock.error_ns)},
          {"comparable", clock.comparable},
          {"source", clock.source == ClockSource::kUnknown ? Json(nullptr) : Json(to_text(clock.source))}};
}

std::string_view news_of(LiveHeadline headline) {
  switch (headline) {
    case LiveHeadline::kBegan:
      return "began";
    case LiveHeadline::kWorsened:
      return "worsened";
    case LiveHeadline::kCameBack:
      return "came_back";
    case LiveHeadline::kEnded:
      break;
  }
  return "ended";
}

}  // namespace

nlohmann::ordered_json finding_to_json(const Finding& finding) { return to_json(finding); }

std::string reported_findings_to_json(const std::vector<ReportedFinding>& findings) {
  Json json{{"schema", Report::kSchema}, {"findings", Json::array()}};
  for (const ReportedFinding& reported : findings) {
    Json one{{"reported_by", reported.node}};
    one.update(to_json(reported.finding));
    json["findings"].push_back(std::move(one));
  }
  return document_text(json);
}

std::string live_finding_to_json(const LiveAgent& agent, LiveHeadline headline, int64_t now_ns, int64_t number,
                                 const Finding& finding, int64_t explained_by) {
  const Json line{{"schema", Report::kSchema},
                  {"node", agent.node},
                  {"started_ns", agent.started_ns},
                  {"time_ns", now_ns},
                  {"number", number},
                  {"news", news_of(headline)},
                  {"explained_by", explained_by == 0 ? Json(nullptr) : Json(explained_by)},
                  {"finding", to_json(finding)}};
  return escape_in_json(line.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n";
}

std::string report_to_json(const Report& report) {
  const std::optional<bool> health = report.health();
  Json json{{"schema", Report::kSchema}, {"healthy", health ? Json(*health) : Json(nullptr)}};
  json["recording"] = {{"nodes", report.nodes},
                       {"ranks", report.ranks},
                       {"from_ns", report.range.from_ns},
                       {"to_ns", report.range.to_ns},
                       {"collectives", report.collectives},
                       {"lost_events", report.lost_events}};
  json["judged"] = {
      {"from_ns", report.judged_range.from_ns}, {"to_ns", report.judged_range.to_ns}, {"collectives", report.judged}};
  if (report.like) {
    json["like"] = {{"files", report.like->files},           {"nodes", report.like->nodes},
                    {"ranks", report.like->ranks},           {"collectives", report.like->collectives},
                    {"comparable", report.like->comparable}, {"not_comparable", report.like->not_comparable}};
  }
  const bool several = report.attempts.size() > 1;
  if (several) {
    json["attempts"] = Json::array();
    for (const JobAttempt& attempt : report.attempts) {
      json["attempts"].push_back(to_json(attempt));
    }
  }
  json["findings"] = Json::array();
  for (const Finding& finding : report.findings) {
    json["findings"].push_back(to_json(finding));
    if (several && finding.attempt) {
      json["findings"].back()["attempt"] = *finding.attempt;
    }
  }
  if (!report.benchmarks.empty()) {
    json["benchmarks"] = Json::array();
    for (const BenchmarkSummary& run : report.benchmarks) {
      json["benchmarks"].push_back(to_json(run));
    }
  }
  if (!report.profiles.empty()) {
    json["profiles"] = Json::array();
    for (const ProfileSummary& profile : report.profiles) {
      json["profiles"].push_back(to_json(profile));
    }
  }
  if (!report.captures.empty()) {
    json["captures"] = Json::array();
    for (const CaptureSummary& capture : report.captures) {
      json["captures"].push_back(to_json(capture));
    }
  }
  json["losses"] = Json::array();
  for (const Loss& loss : report.losses) {
    json["losses"].push_back({{"node_id", loss.node_id}, {"source", loss.source}, {"count", loss.count}});
  }
  if (!report.clocks.empty()) {
    json["clocks"] = Json::array();
    for (const ComparedClock& clock : report.clocks) {
      json["clocks"].push_back(to_json(clock));
    }
  }
  json["notes"] = report.notes;
  return document_text(json);
}

}  // namespace stalltrace::report
