// SPDX-License-Identifier: Apache-2.0
// Each rank in numbers: how often the others waited for it, how long it waited for them, and what its threads did.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/profiles/job_view.h"

namespace stalltrace::analysis {

struct RankProfile {
  MemberIndex member = kNoMember;
  int64_t instances = 0;         // that it entered
  int64_t open = 0;              // of these, those that it is still inside, as far as observed
  int64_t absent = 0;            // instances that it has not entered although others wait
  int64_t last = 0;              // instances of several ranks that it entered last, and into which all came
  int64_t waited_for_ns = 0;     // that others waited for it: InstanceTimes::late_ns where it was last; where it is
                                 // absent, from the middle arrival of the others on
  int64_t waited_ns = 0;         // time that it waited for the last rank; in a hang, for those that are absent
  int64_t median_behind_ns = 0;  // its arrival after the instance's first: the median
  int64_t inside_ns = 0;         // time inside of calls, overlaps counted once
};

/// Of the instances that were under way in `range`; times are those inside of it. In the order of members, those
/// without calls left out.
std::vector<RankProfile> rank_profiles(const JobView& job, TimeRange range);

struct ThreadTimes {
  static constexpr size_t kKinds = 5;
  std::array<int64_t, kKinds> ns{};            // by WaitKind: summed over the process's recorded threads
  std::map<std::string, int64_t> ran_instead;  // kRunnable: which processes had the CPU, at least this long
  int64_t rows = 0;
};

/// What the threads of one rank's process were recorded to do in `range`.
Result<ThreadTimes> thread_times(JobView& job, MemberIndex member, TimeRange range);

}  // namespace stalltrace::analysis
