// SPDX-License-Identifier: Apache-2.0
// Counters of InfiniBand and RoCE ports count something all the time in many healthy fabrics. What they count in a
// stall means something only by contrast: with the same port far from all stalls, and with the ports of the other
// nodes in the same stall.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/thresholds/fabric.h"
#include "model/events/port_counters.h"

namespace stalltrace::analysis {

/// What one port counted of one kind in a stall.
struct PortCounts {
  NodeId node = 0;
  MemberIndex member = kNoMember;  // a rank of the stall on that node
  std::string port;                // "mlx5_0 port 1"
  bool carries = false;            // it moved data
  double per_second = 0;
  std::optional<double> calm_per_second;    // far from all stalls; none: too little such time was recorded
  std::optional<double> others_per_second;  // of the middle one of the other nodes; none: no other node has counters
  int64_t rose_ns = 0;                      // of the stall
  std::map<std::string, double> by_counter;

  [[nodiscard]] bool above_calm() const { return calm_per_second && per_second >= kPortContrast * *calm_per_second; }
  [[nodiscard]] bool above_others() const {
    return others_per_second && per_second >= kPortContrast * *others_per_second;
  }
  /// "mlx5_0 port 1 of node3 counted 300 a second, 2 far from stalls, 0 at the other nodes"
  [[nodiscard]] std::string text(const Cluster& cluster) const;
};

/// The ports that counted this kind, the highest rate first.
std::vector<PortCounts> port_counts(const AnalysisContext& context, const Stall& stall, PortCounterKind kind);

/// Lines of evidence of kind `port_counter` with the counters of these kinds on the nodes of the group's ranks, those
/// that rose most first, at most kMostPortLines.
std::vector<Evidence> port_evidence(const AnalysisContext& context, const CauseGroup& group,
                                    std::span<const PortCounterKind> kinds);
inline constexpr size_t kMostPortLines = 8;

}  // namespace stalltrace::analysis
