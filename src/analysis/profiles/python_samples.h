// SPDX-License-Identifier: Apache-2.0
// The Python stacks that a trace read while something was wrong, folded.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "analysis/profiles/job_view.h"

namespace stalltrace::analysis {

/// Samples with one stack and one activity.
struct FoldedStack {
  std::string frames;              // one a line, innermost first (base/python_frames.h); empty: none were read
  std::string activity;            // what the thread waited for; empty: not read
  std::string problem;             // why frames are missing
  std::set<MemberIndex> ranks;     // whose process, or a descendant of it, was there
  int64_t of_other_processes = 0;  // samples of processes that are no rank's
  int64_t of_descendants = 0;      // samples of a rank's descendants, such as a data loader's workers
  int64_t samples = 0;
  int64_t first_ns = 0;
  int64_t last_ns = 0;
};

struct PythonSamples {
  std::vector<FoldedStack> stacks;  // the most samples first
  int64_t samples = 0;
  int64_t left_out = 0;  // of further stacks, after kMostFoldedStacks
};
inline constexpr size_t kMostFoldedStacks = 2000;

/// `rank`: of this rank only.
Result<PythonSamples> python_samples(JobView& job, TimeRange range, std::optional<int32_t> rank);

}  // namespace stalltrace::analysis
