// SPDX-License-Identifier: Apache-2.0
// Helpers of the network causes: the flows between a stall's ranks, links as locations, and the end that several bad
// links share.
#pragma once

#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// The ranks of a stall, for many questions whether one is among them.
class Participants {
 public:
  explicit Participants(const Stall& stall);
  [[nodiscard]] bool contains(MemberIndex member) const { return member < present_.size() && present_[member]; }

 private:
  std::vector<bool> present_;
};

/// False if the flow is known to carry another communicator than the stall's (evidence/flows.h): then it is no
/// evidence.
bool may_carry(const AnalysisContext& context, const Stall& stall, const Flow& flow);
/// Flows of collective traffic between ranks of the stall, or to a peer that was not recorded, open in its time or
/// until at most `before_ns` before it, which may_carry() its communicator.
std::vector<FlowIndex> flows_of(const AnalysisContext& context, const Stall& stall, int64_t before_ns = 0);
/// The link that a flow sends on; with `backwards`, the link of its acknowledgements.
FaultLocation link_of(const Flows& flows, FlowIndex flow, bool backwards = false);
LinkEndpoints link_endpoints(const AnalysisContext& context, const FaultLocation& location);
enum class LinkText : uint8_t {
  kOneWay,     // "from rank 1 (node1, pid 7) to rank 2 (node2, pid 8)"
  kEitherWay,  // "between rank 1 (node1, pid 7) and rank 2 (node2, pid 8)"
};
std::string link_text(const AnalysisContext& context, const FaultLocation& location, LinkText text = LinkText::kOneWay);
/// The rank at one end of all links, if there are several links and their other ends differ.
MemberIndex common_end(const std::vector<FaultLocation>& links);
/// True if the stall may be the network's: nothing else is known to delay it.
bool network_may_be_slow(const Stall& stall);

}  // namespace stalltrace::analysis
