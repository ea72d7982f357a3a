// SPDX-License-Identifier: Apache-2.0
#include "analysis/profiles/python_samples.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace stalltrace::analysis {

Result<PythonSamples> python_samples(JobView& job, TimeRange range, std::optional<int32_t> rank) {
  PythonSamples folded;
  std::map<std::tuple<int64_t, std::string, std::string>, FoldedStack> by_stack;
  ST_TRY(job.source().python_stacks(job.on_any_clock(range), [&](const PythonStack& row) {
    const int64_t time_ns = job.cluster().clock().to_common(row.node_id, row.timestamp_ns);
    const MemberIndex member = job.cluster().find(row.node_id, row.rank_pid);
    const bool of_rank = !rank || (member != kNoMember && job.cluster().member(member).rank == rank);
    if (!range.contains(time_ns) || !of_rank) {
      return;
    }
    ++folded.samples;
    const std::tuple key(row.stack_id, row.activity, row.problem);
    if (by_stack.size() >= kMostFoldedStacks && !by_stack.contains(key)) {
      ++folded.left_out;
      return;
    }
    FoldedStack& stack = by_stack[key];
    stack.activity = row.activity;
    stack.problem = row.problem;
    stack.first_ns = stack.samples == 0 ? time_ns : std::min(stack.first_ns, time_ns);
    stack.last_ns = std::max(stack.last_ns, time_ns);
    ++stack.samples;
    stack.of_descendants += row.pid != row.rank_pid ? 1 : 0;
    if (member == kNoMember) {
      ++stack.of_other_processes;
    } else {
      stack.ranks.insert(member);
    }
  }));
  ST_ASSIGN(const std::vector<Stack> stacks, job.source().stacks());
  std::map<int64_t, const std::string*> frames;
  for (const Stack& stack : stacks) {
    frames.emplace(stack.stack_id, &stack.frames);
  }
  for (auto& [key, stack] : by_stack) {
    if (const auto found = frames.find(std::get<0>(key)); found != frames.end()) {
      stack.frames = *found->second;
    }
    folded.stacks.push_back(std::move(stack));
  }
  std::ranges::stable_sort(folded.stacks, std::greater<>(), &FoldedStack::samples);
  return folded;
}

}  // namespace stalltrace::analysis
