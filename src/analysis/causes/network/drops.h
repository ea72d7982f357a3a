// SPDX-License-Identifier: Apache-2.0
// Packets that the hosts at both ends of a link dropped, and what the kernel's reasons mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// What the kernel's reason for dropping a packet means to a reader.
struct DropReason {
  std::string_view name;    // enum skb_drop_reason without its prefix
  bool rule = false;        // the host was configured to drop it: a filter, not a fault of the host
  std::string_view what;    // "its firewall (netfilter)"
  std::string_view remedy;  // of a fault: what to change; of a rule: what to look at, and the command
};
const DropReason& drop_reason(std::string_view name);

/// Data of one link that vanished inside one of the two hosts.
struct LinkDrop {
  MemberIndex host = kNoMember;  // at whose host
  bool incoming = false;         // there on the way in
  DropSum sum;
};

/// Of what `flow`'s owner sent, most packets first.
std::vector<LinkDrop> link_drops(const AnalysisContext& context, FlowIndex flow, const IntervalSet& times);

/// Bytes that `flow`'s owner sent again in the window.
int64_t repeated_bytes(const AnalysisContext& context, FlowIndex flow, Interval window);

/// Where the lost packets of a group's links were dropped, by what the hosts at both ends counted.
struct DropSide {
  std::vector<Evidence> evidence;
  std::string first_step;  // of the remedy, where a host dropped packets by a rule; else empty
};
DropSide drop_side(const AnalysisContext& context, const CauseGroup& group);

/// What the group's connections went through in the time of its stalls: each time and each event once, however many
/// stalls overlap.
struct LossTotals {
  int64_t retransmits = 0;
  int64_t timeouts = 0;
  int64_t recovery_ns = 0;  // some connection was in recovery
  int64_t time_ns = 0;      // the time of the stalls
};
LossTotals loss_totals(const AnalysisContext& context, const CauseGroup& group);

}  // namespace stalltrace::analysis
