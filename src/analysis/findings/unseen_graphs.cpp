// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/unseen_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// Whether a profiler file reported that a graph launched a call of the process, which ended at this time or later.
bool is_profiled(const Cluster& cluster, const Timeline& timeline, const GraphUse& use, int64_t since_ns) {
  const MemberIndex member = cluster.find(use.node_id, use.pid);
  return member != kNoMember && std::ranges::any_of(timeline.sequences_of(member), [&](uint32_t sequence) {
           const CallSequence& calls = timeline.sequences()[sequence];
           return is_graph_communicator(calls.comm_ptr) && std::ranges::any_of(calls.calls, [&](const Call& call) {
                    return call.present && call.completion == Completion::kProfiler && call.end_ns() >= since_ns;
                  });
         });
}

/// Whether the process may have captured collectives before it was traced: it is a rank of a job, and is older than the
/// recording. What a younger one captured before its libraries' files were found is not seen.
bool may_have_captured(const Cluster& cluster, const GraphUse& use) {
  const auto process = std::ranges::find_if(cluster.processes(), [&](const Process& row) {
    return row.node_id == use.node_id && row.pid == use.pid && row.start_ns == use.start_ns;
  });
  const auto node = std::ranges::find(cluster.nodes(), use.node_id, &Node::node_id);
  if (process == cluster.processes().end() || node == cluster.nodes().end()) {
    return false;
  }
  const bool is_rank = cluster.find(use.node_id, use.pid) != kNoMember || process->world_size.value_or(1) > 1;
  return is_rank && use.start_ns < node->started_ns;
}

}  // namespace

Status note_unseen_graphs(EventSource& source, const Cluster& cluster, const Timeline& timeline, Report& report) {
  ST_ASSIGN(const std::vector<GraphUse> uses, source.graph_uses());
  int64_t ranks = 0;
  int64_t launches = 0;
  int64_t captured = 0;
  for (const GraphUse& use : uses) {
    if (!use.first_launch_ns || !use.last_launch_ns) {
      continue;
    }
    const int64_t first_ns = cluster.clock().to_common(use.node_id, *use.first_launch_ns);
    const int64_t last_ns = cluster.clock().to_common(use.node_id, *use.last_launch_ns);
    const bool judged =
        report.collectives == 0 || (first_ns < report.judged_range.to_ns && last_ns >= report.judged_range.from_ns);
    if (!judged || is_profiled(cluster, timeline, use, first_ns) ||
        (use.captured == 0 && !may_have_captured(cluster, use))) {
      continue;
    }
    ++ranks;
    launches += use.launches;
    captured += use.captured;
  }
  if (ranks == 0) {
    return {};
  }
  const std::string what =
      captured > 0 ? fmt::format("{} captured into CUDA graphs, or may have been, and what graphs run is not seen",
                                 captured == 1 ? "1 collective was" : fmt::format("{} collectives were", captured))
                   : "collectives may have been captured into CUDA graphs before tracing began, and what graphs run is "
                     "not seen";
  report.unseen_graphs = fmt::format(
      "{}: {} launched graphs at least {} times; NCCL reports those collectives to the profiler plugin only: "
      "start the job with stalltrace run, or load the plugin as plugin/README.md shows",
      what, count_of(ranks, "rank"), launches);
  report.notes.push_back(report.unseen_graphs);
  return {};
}

}  // namespace stalltrace::analysis
