// SPDX-License-Identifier: Apache-2.0
// What several bad links have in common: a rank, or a node and with it its network interface.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

/// The node of a rank; none of kNoMember.
std::optional<NodeId> node_of(const AnalysisContext& context, MemberIndex member);
/// True if both are known and on one node.
bool on_one_node(const AnalysisContext& context, MemberIndex a, MemberIndex b);
/// Blames one end of the location's link: the rank, or its node where that has other ranks of the job.
void blame_end(const AnalysisContext& context, MemberIndex end, FaultLocation& location);

/// Blames the end that all links of one stall have in common, if there are several and their other ends differ: a rank
/// (common_end), or else a node if they are links of several of its ranks to several other nodes.
void blame_common_end(const AnalysisContext& context, const std::vector<FaultLocation>& links, FaultLocation& location);

/// Joins groups of one cause whose links have an end in common and whose other ends differ: that rank is the culprit,
/// or that node if links of several of its ranks are bad. Links whose other ends are all on one node do not
/// distinguish the two nodes: those between two nodes become one finding without a culprit. A link with less than
/// kLinkShare of the worst one's cost proves nothing, but belongs to what the others prove.
void join_by_location(const AnalysisContext& context, std::vector<CauseGroup>& groups);

/// For causes that find a common end within a stall: joins the groups that blame the same end, and with each the links
/// of that end, in any direction, whose lost time overlaps its own. What several links of other times have in common
/// proves nothing.
void join_by_end(const AnalysisContext& context, std::vector<CauseGroup>& groups);

/// Of a location with a node: true if its bad links enter the node, false if they leave it.
bool is_incoming(const AnalysisContext& context, const FaultLocation& location);
/// Of a location with a node: whether the flow is such a link.
bool is_link_of_node(const AnalysisContext& context, const FaultLocation& location, const Flow& flow);
/// Who is blamed, of a location at one end: "rank 2 (node2, pid 4711)", "node2".
std::string end_text(const AnalysisContext& context, const FaultLocation& location);
/// "out of rank 2 (node2, pid 4711)", "into node2 (10.0.0.3)", "from rank 1 (...) to rank 2 (...)"
std::string direction_text(const AnalysisContext& context, const FaultLocation& location);

}  // namespace stalltrace::analysis
