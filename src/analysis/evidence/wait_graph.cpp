// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/wait_graph.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <unordered_set>

#include "analysis/thresholds/steps.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kReasons = 5;

/// The receiver's newest unread count at `time_ns`; none if its end was not sampled.
std::optional<uint32_t> unread_at(const std::vector<SampleRecord>& samples, int64_t time_ns) {
  const auto after = std::partition_point(samples.begin(), samples.end(),
                                          [&](const SampleRecord& sample) { return sample.time_ns <= time_ns; });
  return after == samples.begin() ? std::nullopt : std::optional((after - 1)->unread_bytes);
}

std::optional<WaitReason> reason_of(const SampleRecord& sample, std::optional<uint32_t> unread) {
  if (is_recovering(sample.ca_state) && sample.unacked_bytes > 0) {
    return WaitReason::kLoss;
  }
  if (unread.value_or(0) > 0 && (sample.notsent_bytes > 0 || sample.snd_wnd == 0)) {
    return WaitReason::kReceiverBehind;
  }
  if (sample.unacked_bytes == 0 && sample.notsent_bytes == 0 && unread.value_or(0) == 0) {
    return WaitReason::kSenderBehind;
  }
  return std::nullopt;
}

void add_flow_edges(const Flows& flows, const EvidenceStore& evidence, const std::vector<MemberIndex>& members,
                    Interval window, const std::function<bool(const Flow&)>& counts, WaitGraph& graph) {
  const std::unordered_set<MemberIndex> ranks(members.begin(), members.end());
  for (const FlowIndex i : flows.of(members)) {
    const Flow& flow = flows.flow(i);
    if (!flow.carries_collectives || !ranks.contains(flow.peer) || (counts && !counts(flow))) {
      continue;
    }
    std::array<int64_t, kReasons> seen{};
    int64_t samples = 0;
    const std::vector<SampleRecord>& records = evidence.samples(i);
    auto record = std::partition_point(records.begin(), records.end(),
                                       [&](const SampleRecord& s) { return s.time_ns < window.from_ns; });
    for (; record != records.end() && record->time_ns < window.to_ns; ++record) {
      const SampleRecord& sample = *record;
      if (sample.bytes_acked == 0) {
        continue;  // a connection that never carried data in this direction proves nothing
      }
      ++samples;
      const auto unread =
          flow.reverse == kNoFlow ? std::nullopt : unread_at(evidence.samples(flow.reverse), sample.time_ns);
      if (const auto reason = reason_of(sample, unread)) {
        ++seen[static_cast<size_t>(*reason)];
      }
    }
    const auto most = static_cast<size_t>(std::max_element(seen.begin(), seen.end()) - seen.begin());
    if (samples == 0 || static_cast<double>(seen[most]) < kEdgeShare * static_cast<double>(samples)) {
      continue;
    }
    const auto reason = static_cast<WaitReason>(most);
    WaitEdge edge{flow.owner, flow.peer, reason, i, seen[most]};
    if (reason == WaitReason::kSenderBehind) {
      std::swap(edge.waiter, edge.awaited);
    }
    graph.edges.push_back(edge);
  }
}

/// A link's ends may have waited for each other in turns: the longest kind of wait counts.
void add_step_edges(const Cluster& cluster, const EvidenceStore& evidence, const std::vector<MemberIndex>& members,
                    Interval window, WaitGraph& graph) {
  for (const LinkWait& wait : evidence.steps().waits(cluster, members, window)) {
    if (static_cast<double>(wait.covered_ns) < kEdgeShare * static_cast<double>(window.length())) {
      continue;
    }
    WaitEdge edge{.waiter = wait.dst, .awaited = wait.src, .samples = wait.waits, .covered_ns = wait.covered_ns};
    switch (wait.kind) {
      case LinkWaitKind::kSenderBehind:
        edge.reason = WaitReason::kSenderBehind;
        break;
      case LinkWaitKind::kReceiverBehind:
        edge.reason = WaitReason::kReceiverBehind;
        std::swap(edge.waiter, edge.awaited);
        break;
      case LinkWaitKind::kInFlight:
        edge.reason = WaitReason::kInFlight;
        graph.links.push_back(edge);
        break;
      case LinkWaitKind::kUndecided:
        edge.reason = WaitReason::kUndecided;
        break;
    }
    graph.edges.push_back(edge);
  }
}

void find_sinks(WaitGraph& graph) {
  std::set<MemberIndex> waiting;
  std::set<MemberIndex> awaited;
  bool undecided = false;
  for (const WaitEdge& edge : graph.edges) {
    waiting.insert(edge.waiter);
    const bool by_link = edge.reason == WaitReason::kInFlight || edge.reason == WaitReason::kUndecided;
    if (!by_link) {  // no rank is known to wait for the rank behind the link
      awaited.insert(edge.awaited);
    }
    undecided = undecided || edge.reason == WaitReason::kUndecided;
  }
  std::set_difference(awaited.begin(), awaited.end(), waiting.begin(), waiting.end(), std::back_inserter(graph.sinks));
  graph.deadlock = !graph.edges.empty() && graph.sinks.empty() && graph.links.empty() && !undecided;
}

}  // namespace

std::string_view to_text(WaitReason reason) {
  constexpr std::array<std::string_view, kReasons> kTexts{"sender_behind", "receiver_behind", "loss", "in_flight",
                                                          "undecided"};
  return kTexts[static_cast<size_t>(reason)];
}

WaitGraph build_wait_graph(const Cluster& cluster, const Flows& flows, const EvidenceStore& evidence,
                           const std::vector<MemberIndex>& members, Interval window,
                           const std::function<bool(const Flow&)>& counts) {
  WaitGraph graph;
  add_flow_edges(flows, evidence, members, window, counts, graph);
  add_step_edges(cluster, evidence, members, window, graph);
  find_sinks(graph);
  return graph;
}

}  // namespace stalltrace::analysis
