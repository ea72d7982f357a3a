// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/network/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace stalltrace::analysis {

bool takes_part(const Stall& stall, MemberIndex member) {
  return std::find(stall.members.begin(), stall.members.end(), member) != stall.members.end();
}

std::vector<FlowIndex> flows_of(const AnalysisContext& context, const Stall& stall) {
  std::vector<FlowIndex> flows;
  for (FlowIndex i = 0; i < context.flows.all().size(); ++i) {
    const Flow& flow = context.flows.flow(i);
    const bool alive = flow.opened_ns < stall.examined().to_ns && flow.closed_ns > stall.examined().from_ns;
    if (alive && flow.carries_collectives && takes_part(stall, flow.owner) &&
        (flow.peer == kNoMember || takes_part(stall, flow.peer))) {
      flows.push_back(i);
    }
  }
  return flows;
}

Place link_of(const Flows& flows, FlowIndex index, bool backwards) {
  const Flow& flow = flows.flow(index);
  Place place{.flow = index, .src = flow.owner, .dst = flow.peer};
  if (flow.peer == kNoMember) {
    place.far_end = flow.dst.address;
  }
  if (backwards) {
    std::swap(place.src, place.dst);
  }
  return place;
}

LinkPlace link_place(const AnalysisContext& context, const Place& place) {
  const Flow& flow = context.flows.flow(place.flow);
  return place.src == flow.owner ? LinkPlace{flow.src_rank, flow.dst_rank, flow.src, flow.dst}
                                 : LinkPlace{flow.dst_rank, flow.src_rank, flow.dst, flow.src};
}

std::string link_text(const AnalysisContext& context, const Place& place) {
  const auto end = [&](MemberIndex member) {
    return member == kNoMember ? fmt::format("{} (not recorded)", place.far_end) : context.cluster.describe(member);
  };
  return fmt::format("from {} to {}", end(place.src), end(place.dst));
}

MemberIndex common_end(const std::vector<Place>& links) {
  for (const Place& candidate : links) {
    for (const MemberIndex end : {candidate.src, candidate.dst}) {
      std::set<MemberIndex> others;
      const bool all = std::all_of(links.begin(), links.end(), [&](const Place& link) {
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
