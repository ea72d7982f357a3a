// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/network/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "analysis/thresholds/network.h"

namespace stalltrace::analysis {

Participants::Participants(const Stall& stall) {
  for (const MemberIndex member : stall.members) {
    present_.resize(std::max<size_t>(present_.size(), member + size_t{1}));
    present_[member] = true;
  }
}

bool may_carry(const AnalysisContext& context, const Stall& stall, const Flow& flow) {
  return may_carry(context.timeline, flow, context.timeline.groups()[stall.group].hash);
}

namespace {

/// What a rank sends to an address that no rank has goes to a store, a file server or a web service, unless the
/// library's own thread or the plugin's marks say otherwise. Only where all ranks and their addresses are known.
bool leaves_the_job(const Flow& flow) {
  return flow.peer == kNoMember && !flow.known_address && !flow.dedicated && flow.communicator == 0;
}

/// The calls of all ranks of the communicator are recorded, and connections of each.
bool knows_all_addresses(const AnalysisContext& context, const Stall& stall) {
  const Group& group = context.timeline.groups()[stall.group];
  return group.all_took_part && std::ranges::all_of(group.sequences, [&](uint32_t index) {
           return !context.flows.of(context.timeline.sequences()[index].member).empty();
         });
}

}  // namespace

std::vector<FlowIndex> flows_of(const AnalysisContext& context, const Stall& stall, int64_t before_ns) {
  const Participants ranks(stall);
  const bool all_known = knows_all_addresses(context, stall);
  std::vector<FlowIndex> flows = context.flows.of(stall.members);
  std::erase_if(flows, [&](FlowIndex index) {
    const Flow& flow = context.flows.flow(index);
    const bool alive = flow.opened_ns < stall.examined().to_ns && flow.closed_ns > stall.examined().from_ns - before_ns;
    return !alive || !flow.carries_collectives || (flow.peer != kNoMember && !ranks.contains(flow.peer)) ||
           (all_known && leaves_the_job(flow)) || !may_carry(context, stall, flow);
  });
  return flows;
}

FaultLocation link_of(const Flows& flows, FlowIndex index, bool backwards) {
  const Flow& flow = flows.flow(index);
  FaultLocation location{.flow = index, .src = flow.owner, .dst = flow.peer};
  if (flow.peer == kNoMember) {
    location.far_end = flow.dst.address;
  }
  if (backwards) {
    std::swap(location.src, location.dst);
  }
  return location;
}

LinkEndpoints link_endpoints(const AnalysisContext& context, const FaultLocation& location) {
  const Flow& flow = context.flows.flow(location.flow);
  return location.src == flow.owner ? LinkEndpoints{flow.src_rank, flow.dst_rank, flow.src, flow.dst}
                                    : LinkEndpoints{flow.dst_rank, flow.src_rank, flow.dst, flow.src};
}

std::string link_text(const AnalysisContext& context, const FaultLocation& location, LinkText text) {
  const auto end = [&](MemberIndex member) {
    return member == kNoMember ? fmt::format("{} (not recorded)", location.far_end) : context.cluster.describe(member);
  };
  return text == LinkText::kOneWay ? fmt::format("from {} to {}", end(location.src), end(location.dst))
                                   : fmt::format("between {} and {}", end(location.src), end(location.dst));
}

MemberIndex common_end(const std::vector<FaultLocation>& links) {
  for (const FaultLocation& candidate : links) {
    for (const MemberIndex end : {candidate.src, candidate.dst}) {
      std::set<MemberIndex> others;
      const bool all = std::all_of(links.begin(), links.end(), [&](const FaultLocation& link) {
        others.insert(link.src == end ? link.dst : link.src);
        return link.src == end || link.dst == end;
      });
      if (end != kNoMember && all && static_cast<int>(others.size()) >= kLinksForCulprit) {
        return end;
      }
    }
  }
  return kNoMember;
}

bool network_may_be_slow(const Stall& stall) {
  return stall.part() == StallPart::kTransfer &&
         (stall.root().kind == HangKind::kNone || stall.root().kind == HangKind::kTransfer);
}

}  // namespace stalltrace::analysis
