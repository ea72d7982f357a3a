// SPDX-License-Identifier: Apache-2.0
#include "export/tracks/finding_flows.h"

#include <algorithm>

namespace stalltrace::trace_export {
namespace {

int64_t clamped(int64_t time_ns) { return std::clamp<int64_t>(time_ns, 0, kLatestNs); }

}  // namespace

FindingFlows::FindingFlows(std::span<const Finding> findings, std::span<const std::optional<ProcessKey>> culprits,
                           const CommonClock& clock)
    : clock_(clock) {
  for (size_t i = 0; i < findings.size(); ++i) {
    for (const StalledInstance& instance : findings[i].stalled) {
      const TimeRange waited{clamped(instance.waited.from_ns), clamped(instance.waited.to_ns)};
      for (const StalledCall& call : instance.calls) {
        const bool is_culprit = findings[i].culprit && culprits[i] == ProcessKey{call.node_id, call.pid};
        if (!is_culprit) {
          const CommHash hash = call.seq ? call.comm_id_hash : 0;
          targets_[{call.node_id, call.pid, hash, call.seq.value_or(call.arrival_ns)}].push_back(
              {slices_.size(), call, waited});
        }
      }
      slices_.push_back({.finding = i,
                         .culprit = culprits[i],
                         .begin_ns = waited.from_ns,
                         .end_ns = std::max(waited.from_ns, waited.to_ns),
                         .flows = {}});
    }
  }
}

/// Where no end was observed there is no slice to lead to. A rank numbers its Sends and Recvs by peer: there only the
/// time distinguishes them. A process may number two communicators of one name alike: the call lasted while the job
/// waited.
bool FindingFlows::fits(const Target& target, const Collective& row) const {
  if (target.taken || target.call.op != row.op || row.completion == Completion::kUnobserved ||
      row.completion == Completion::kCaptured ||
      (is_point_to_point(row.op) && target.call.arrival_ns != row.timestamp_ns)) {
    return false;
  }
  const int64_t begin = clock_.at(row.node_id, row.timestamp_ns);
  const int64_t end = row.duration_ns ? end_after(begin, *row.duration_ns) : kForever;
  return begin <= target.waited.to_ns && end >= target.waited.from_ns;
}

void FindingFlows::match(const Collective& row) {
  const bool known = row.comm_id_hash != 0 && row.seq;
  const auto found =
      targets_.find({row.node_id, row.pid, known ? row.comm_id_hash : 0, known ? *row.seq : row.timestamp_ns});
  if (found == targets_.end()) {
    return;
  }
  for (Target& target : found->second) {
    if (fits(target, row)) {
      target.taken = true;
      StallSlice& slice = slices_[target.slice];
      slice.begin_ns = std::min(slice.begin_ns, clock_.at(row.node_id, row.timestamp_ns));
      slice.flows.push_back(++last_flow_);
      flows_[row.event_id].push_back(last_flow_);
    }
  }
}

std::vector<const StallSlice*> FindingFlows::slices_by_time() const {
  std::vector<const StallSlice*> slices;
  for (const StallSlice& slice : slices_) {
    slices.push_back(&slice);
  }
  std::ranges::stable_sort(slices, {}, &StallSlice::begin_ns);
  return slices;
}

void FindingFlows::remove(const std::unordered_set<FlowId>& flows) {
  for (auto& [call, leading] : flows_) {
    std::erase_if(leading, [&](FlowId flow) { return flows.contains(flow); });
  }
}

std::span<const FlowId> FindingFlows::flows_to(EventId call) const {
  const auto found = flows_.find(call);
  return found == flows_.end() ? std::span<const FlowId>() : std::span<const FlowId>(found->second);
}

}  // namespace stalltrace::trace_export
