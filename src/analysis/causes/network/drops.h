// SPDX-License-Identifier: Apache-2.0
// Packets that the hosts at both ends of a link dropped, and what the kernel's reasons mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// The meaning of a kernel drop reason for the reader.
struct DropReason {
  std::string_view name;    // enum skb_drop_reason, without its prefix
  bool rule = false;        // the host was configured to drop it (a filter): no fault of the host
  std::string_view what;    // "its firewall (netfilter)"
  std::string_view remedy;  // for a fault: what to change; for a rule: where to look, and the command
  bool of_socket = false;   // for one connection's socket, not for all that passes the host
};
const DropReason& drop_reason(std::string_view name);

/// Packets of one link that were dropped inside one of the two hosts.
struct LinkDrop {
  MemberIndex host = kNoMember;  // the rank whose host dropped them
  bool incoming = false;         // dropped on the way in
  DropSum sum;
};

/// Drops of packets that `flow`'s owner sent, most packets first.
std::vector<LinkDrop> link_drops(const AnalysisContext& context, FlowIndex flow, const IntervalSet& times);

/// Bytes that `flow`'s owner retransmitted in the window.
int64_t repeated_bytes(const AnalysisContext& context, FlowIndex flow, Interval window);

/// Where the lost packets of a group's links were dropped, by the counters of the hosts at both ends.
struct DropSide {
  std::vector<Evidence> evidence;
  std::string first_step;  // the remedy's first step if a host dropped packets by a rule; else empty
};
DropSide drop_side(const AnalysisContext& context, const CauseGroup& group);
/// What the hosts of the group's ranks dropped themselves of any of the ranks' connections, on the way in or out. It
/// cost time, though without the other ends' recordings how much is not known.
DropSide own_drops(const AnalysisContext& context, const CauseGroup& group);

/// Losses on the group's connections during its stalls. Each time and each event counts once, also where stalls
/// overlap.
struct LossTotals {
  int64_t retransmits = 0;
  int64_t timeouts = 0;
  int64_t early_timeouts = 0;  // as in FlowLoss
  int64_t recovery_ns = 0;     // at least one connection was in recovery
  int64_t time_ns = 0;         // total time of the stalls
};
LossTotals loss_totals(const AnalysisContext& context, const CauseGroup& group);

}  // namespace stalltrace::analysis
