// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/set_up/stuck_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/thresholds/set_up.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// NCCL's result codes have names; those of other libraries are printed as numbers.
std::string result_text(const CommunicatorCall& call) {
  const int32_t code = call.return_code.value_or(0);
  return call.library == Library::kNccl || call.library == Library::kRccl ? std::string(nccl_result_name(code))
                                                                          : fmt::format("return code {}", code);
}

}  // namespace

std::map<NodeId, int64_t> ends_of_nodes(const Cluster& cluster) {
  std::map<NodeId, int64_t> ends;
  for (const Node& node : cluster.nodes()) {
    if (node.ended_ns) {
      ends[node.node_id] = cluster.clock().to_common(node.node_id, *node.ended_ns);
    }
  }
  return ends;
}

std::vector<StuckCall> stuck_calls(const Cluster& cluster, const Timeline& timeline) {
  const std::map<NodeId, int64_t> ends = ends_of_nodes(cluster);
  std::vector<StuckCall> stuck;
  for (const CommunicatorCall& call : timeline.communicator_calls()) {
    if (call.op != Operation::kCommInitRank && call.op != Operation::kCommInitAll && call.op != Operation::kCommSplit) {
      continue;
    }
    const Member& member = cluster.member(call.member);
    const auto end = ends.find(member.node_id);
    const int64_t seen_to_ns =
        std::min(member.exit_ns.value_or(kForever),
                 end == ends.end() ? std::max(timeline.span().to_ns, call.arrival_ns) : end->second);
    const Interval time{call.arrival_ns, std::min(call.end_ns, seen_to_ns)};
    const bool failed = call_failed(call.library, call.return_code.value_or(0));
    if (failed || time.length() >= (call.end_ns == kForever ? kOpenInitNs : kInitHangNs)) {
      stuck.push_back({&call, time, failed});
    }
  }
  return stuck;
}

std::string stuck_text(const Cluster& cluster, const StuckCall& stuck) {
  const std::string name = cluster.describe(stuck.call->member);
  return stuck.failed
             ? fmt::format("{}: communicator set-up failed with '{}' after {}", name, result_text(*stuck.call),
                           format_duration(stuck.time.length()))
             : fmt::format("{} was setting up its communicator for {}", name, format_duration(stuck.time.length()));
}

}  // namespace stalltrace::analysis
