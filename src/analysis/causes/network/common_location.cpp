// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/network/common_location.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "analysis/causes/network/links.h"
#include "analysis/thresholds/network.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// One end of links: of one rank, or of all ranks of a node. In this order of preference.
struct End {
  bool whole_node = false;
  bool outgoing = false;
  NodeId node = 0;
  MemberIndex member = kNoMember;  // not of a whole node
  auto operator<=>(const End&) const = default;
};

/// A group's link, as seen from one of its ends.
struct Spoke {
  size_t group = 0;
  MemberIndex near = kNoMember;
  std::pair<NodeId, MemberIndex> far;  // the other node, or the other rank on the same node
};

class LocationSearch {
 public:
  LocationSearch(const AnalysisContext& context, std::vector<CauseGroup>& groups)
      : context_(context), groups_(groups) {}

  /// The end that explains the greatest cost; false if no two links have one.
  bool join_most_expensive() {
    std::map<End, std::vector<Spoke>> ends;
    for (size_t i = 0; i < groups_.size(); ++i) {
      const FaultLocation& location = groups_[i].location;
      if (!location.at_one_end() && location.src != kNoMember) {
        add(i, location.dst, location.src, false, ends);
        add(i, location.src, location.dst, true, ends);
      }
    }
    const End* best = nullptr;
    std::vector<size_t> joined;
    int64_t most_ns = 0;
    for (auto& [end, spokes] : ends) {
      const std::vector<Spoke> bad = alike(spokes);
      std::set<std::pair<NodeId, MemberIndex>> far;
      std::set<MemberIndex> near;
      std::vector<size_t> same;
      int64_t cost_ns = 0;
      for (const Spoke& spoke : bad) {
        far.insert(spoke.far);
        near.insert(spoke.near);
        cost_ns += groups_[spoke.group].lost.total_ns();
      }
      for (const Spoke& spoke : spokes) {  // with those that lost little: they have the same end
        same.push_back(spoke.group);
      }
      if (static_cast<int>(far.size()) >= kLinksForCulprit && (!end.whole_node || near.size() > 1) &&
          cost_ns > most_ns) {
        best = &end;
        most_ns = cost_ns;
        joined = std::move(same);
      }
    }
    if (best == nullptr) {
      return false;
    }
    FaultLocation& location = join(std::move(joined)).location;
    if (best->whole_node) {
      location.node = best->node;
    } else {
      location.culprit = best->member;
    }
    return true;
  }

  /// Links between the same two nodes.
  void join_pairs() {
    std::map<std::pair<NodeId, NodeId>, std::vector<size_t>> pairs;
    for (size_t i = 0; i < groups_.size(); ++i) {
      const FaultLocation& location = groups_[i].location;
      const std::optional<NodeId> src = node_of(context_, location.src);
      const std::optional<NodeId> dst = node_of(context_, location.dst);
      if (!groups_[i].stalls.empty() && !location.at_one_end() && src && dst && src != dst) {
        pairs[{*src, *dst}].push_back(i);
      }
    }
    for (auto& [nodes, same] : pairs) {
      if (same.size() < 2) {
        continue;
      }
      const auto others = static_cast<int64_t>(same.size()) - 1;
      join(std::move(same))
          .mentions.push_back(
              {"connection",
               others,
               fmt::format("{} from {} to {} had the same trouble: it is on the way between these nodes, "
                           "or at one of them",
                           count_of(others, "other link"), context_.cluster.node_name(nodes.first),
                           context_.cluster.node_name(nodes.second)),
               {}});
    }
  }

 private:
  void add(size_t group, MemberIndex near, MemberIndex far, bool outgoing, std::map<End, std::vector<Spoke>>& ends) {
    const std::optional<NodeId> node = node_of(context_, near);
    if (!node || groups_[group].stalls.empty()) {
      return;
    }
    const std::optional<NodeId> far_node = node_of(context_, far);
    const bool elsewhere = far_node && far_node != node;
    const Spoke spoke{group, near, {far_node.value_or(0), elsewhere ? kNoMember : far}};
    ends[{false, outgoing, *node, near}].push_back(spoke);
    if (elsewhere) {  // what stays on the node does not pass its interface
      ends[{true, outgoing, *node, kNoMember}].push_back(spoke);
    }
  }

  /// Without the links that cost little compared to the worst one.
  [[nodiscard]] std::vector<Spoke> alike(const std::vector<Spoke>& spokes) const {
    int64_t most_ns = 0;
    for (const Spoke& spoke : spokes) {
      most_ns = std::max(most_ns, groups_[spoke.group].lost.total_ns());
    }
    std::vector<Spoke> bad;
    std::ranges::copy_if(spokes, std::back_inserter(bad), [&](const Spoke& spoke) {
      return share_of(groups_[spoke.group].lost.total_ns(), most_ns) >= kLinkShare;
    });
    return bad;
  }

  CauseGroup& join(std::vector<size_t> same) {
    std::ranges::stable_sort(same, std::greater{}, [&](size_t i) { return groups_[i].lost.total_ns(); });
    CauseGroup& first = groups_[same[0]];
    for (size_t i = 1; i < same.size(); ++i) {
      merge(first, std::move(groups_[same[i]]));
      groups_[same[i]].stalls.clear();
    }
    return first;
  }

  const AnalysisContext& context_;
  std::vector<CauseGroup>& groups_;
};

/// The node at one end of all links, if several of its ranks have them and their other ends are on several nodes.
std::optional<NodeId> common_node(const AnalysisContext& context, const std::vector<FaultLocation>& links) {
  for (const MemberIndex candidate : {links.front().src, links.front().dst}) {
    const std::optional<NodeId> node = node_of(context, candidate);
    std::set<MemberIndex> near;
    std::set<NodeId> far;
    const bool all = node && std::ranges::all_of(links, [&](const FaultLocation& link) {
                       const bool outgoing = node_of(context, link.src) == node;
                       near.insert(outgoing ? link.src : link.dst);
                       const std::optional<NodeId> other = node_of(context, outgoing ? link.dst : link.src);
                       far.insert(other.value_or(*node));
                       return other && other != node && (outgoing || node_of(context, link.dst) == node);
                     });
    if (all && near.size() > 1 && static_cast<int>(far.size()) >= kLinksForCulprit) {
      return node;
    }
  }
  return std::nullopt;
}

bool overlap(const IntervalSet& a, const IntervalSet& b) {
  return std::ranges::any_of(b.intervals(), [&](const Interval& interval) { return a.covered_ns(interval) > 0; });
}

/// True if `other` blames the same end as the group, or is a link between that end and elsewhere, of the same time.
bool is_of_end(const AnalysisContext& context, const CauseGroup& group, const CauseGroup& other) {
  const FaultLocation& end = group.location;
  const FaultLocation& link = other.location;
  if (link.at_one_end()) {
    return link.culprit == end.culprit && link.node == end.node;
  }
  const bool touches = end.culprit != kNoMember
                           ? link.src == end.culprit || link.dst == end.culprit
                           : (node_of(context, link.src) == end.node) != (node_of(context, link.dst) == end.node);
  return touches && overlap(group.lost, other.lost);
}

/// The address of the node's end of the location's link.
std::string address_text(const AnalysisContext& context, const FaultLocation& location) {
  if (location.flow == kNoFlow) {
    return {};
  }
  const LinkEndpoints link = link_endpoints(context, location);
  const std::optional<Endpoint>& end = is_incoming(context, location) ? link.dst : link.src;
  return end ? fmt::format(" ({})", end->address) : std::string();
}

}  // namespace

std::optional<NodeId> node_of(const AnalysisContext& context, MemberIndex member) {
  return member == kNoMember ? std::nullopt : std::optional(context.cluster.member(member).node_id);
}

bool on_one_node(const AnalysisContext& context, MemberIndex a, MemberIndex b) {
  return a != kNoMember && node_of(context, a) == node_of(context, b);
}

void blame_end(const AnalysisContext& context, MemberIndex end, FaultLocation& location) {
  const std::vector<Member>& members = context.cluster.members();
  const auto ranks = std::ranges::count_if(members, [&](const Member& member) {
    return member.node_id == context.cluster.member(end).node_id && member.rank && context.concerns(member);
  });
  if (ranks > 1) {
    location.node = context.cluster.member(end).node_id;
  } else {
    location.culprit = end;
  }
}

void blame_common_end(const AnalysisContext& context, const std::vector<FaultLocation>& links,
                      FaultLocation& location) {
  location.culprit = common_end(links);
  if (location.culprit == kNoMember) {
    location.node = common_node(context, links);
  }
}

void join_by_end(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t k = 0; k < groups.size() && groups[i].location.at_one_end(); ++k) {
      if (k != i && !groups[k].stalls.empty() && !groups[i].stalls.empty() &&
          is_of_end(context, groups[i], groups[k])) {
        merge(groups[i], std::move(groups[k]));
        groups[k].stalls.clear();
      }
    }
  }
  std::erase_if(groups, [](const CauseGroup& group) { return group.stalls.empty(); });
}

void join_by_location(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  LocationSearch search(context, groups);
  while (search.join_most_expensive()) {
  }
  search.join_pairs();
  std::erase_if(groups, [](const CauseGroup& group) { return group.stalls.empty(); });
}

bool is_incoming(const AnalysisContext& context, const FaultLocation& location) {
  return node_of(context, location.dst) == location.node;
}

bool is_link_of_node(const AnalysisContext& context, const FaultLocation& location, const Flow& flow) {
  const bool incoming = is_incoming(context, location);
  return node_of(context, incoming ? flow.peer : flow.owner) == location.node &&
         node_of(context, incoming ? flow.owner : flow.peer) != location.node;
}

std::string end_text(const AnalysisContext& context, const FaultLocation& location) {
  return location.node ? context.cluster.node_name(*location.node) : context.cluster.describe(location.culprit);
}

std::string direction_text(const AnalysisContext& context, const FaultLocation& location) {
  if (location.node) {
    return fmt::format("{} {}{}", is_incoming(context, location) ? "into" : "out of",
                       context.cluster.node_name(*location.node), address_text(context, location));
  }
  if (location.culprit == kNoMember && location.dst == kNoMember && location.flow != kNoFlow) {
    return fmt::format("from {} to {} (not recorded)", context.cluster.describe(location.src),
                       format_endpoint(context.flows.flow(location.flow).dst));
  }
  if (location.culprit == kNoMember) {
    return link_text(context, location);
  }
  return fmt::format("{} {}", location.culprit == location.dst ? "into" : "out of",
                     context.cluster.describe(location.culprit));
}

}  // namespace stalltrace::analysis
