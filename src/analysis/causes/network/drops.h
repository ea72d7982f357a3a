// SPDX-License-Identifier: Apache-2.0
// Packets that the hosts at both ends of a link dropped, and what the kernel's reasons mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// What a reason of the kernel means to a reader.
struct DropReason {
  std::string_view name;    // enum skb_drop_reason without its prefix
  bool rule = false;        // somebody told the host to drop it: a filter, not a fault of the host
  std::string_view what;    // "its firewall (netfilter)"
  std::string_view remedy;  // of a fault
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

/// The time of all stalls of a group.
IntervalSet time_of(const CauseGroup& group);

/// Bytes that `flow`'s owner sent again in the window.
int64_t repeated_bytes(const AnalysisContext& context, FlowIndex flow, Interval window);

/// At which side the lost packets of the group's links vanished, as far as the hosts know.
std::vector<Evidence> side_evidence(const AnalysisContext& context, const CauseGroup& group);

}  // namespace stalltrace::analysis
