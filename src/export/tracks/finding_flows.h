// SPDX-License-Identifier: Apache-2.0
// Who waited for whom: a slice for each instance that a finding explains, on the track of the rank that it blames, and
// a flow from it to each call that waited.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "export/encode/trace_encoder.h"
#include "export/tracks/common_clock.h"
#include "model/finding.h"

namespace stalltrace::trace_export {

using ProcessKey = std::pair<NodeId, int32_t>;

/// One stalled instance.
struct StallSlice {
  size_t finding = 0;  // index in the report
  std::optional<ProcessKey> culprit;
  int64_t begin_ns = 0;  // of the first call that waited, or when the job began to wait
  int64_t end_ns = 0;
  std::vector<FlowId> flows;  // one for each call that waited
};

/// First all rows are shown to match(), then slices_by_time() and flows_to() are asked.
class FindingFlows {
 public:
  /// `culprits`: the process of each finding's culprit, or of its link's sender.
  FindingFlows(std::span<const Finding> findings, std::span<const std::optional<ProcessKey>> culprits,
               const CommonClock& clock);

  [[nodiscard]] bool empty() const { return slices_.empty(); }
  /// Adds a flow to the row for each finding that it waited in, other than as the culprit's own call.
  void match(const Collective& row);
  /// In the order of their begins, as they are written.
  [[nodiscard]] std::vector<const StallSlice*> slices_by_time() const;
  /// Flows whose slice is not in the file: they would come from nowhere.
  void remove(const std::unordered_set<FlowId>& flows);
  [[nodiscard]] std::span<const FlowId> flows_to(EventId call) const;

 private:
  struct Target {
    size_t slice = 0;
    StalledCall call;
    TimeRange waited;
    bool taken = false;
  };
  /// Node, pid, communicator, and the sequence number; or 0 and the time, if the communicator is not known.
  using CallKey = std::tuple<NodeId, int32_t, CommHash, int64_t>;

  [[nodiscard]] bool fits(const Target& target, const Collective& row) const;

  const CommonClock& clock_;
  std::vector<StallSlice> slices_;
  std::map<CallKey, std::vector<Target>> targets_;
  std::unordered_map<EventId, std::vector<FlowId>> flows_;
  FlowId last_flow_ = 0;
};

}  // namespace stalltrace::trace_export
