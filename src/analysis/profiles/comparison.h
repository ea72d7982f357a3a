// SPDX-License-Identifier: Apache-2.0
// Two time ranges of one job, or two jobs, class by class.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/profiles/job_view.h"

namespace stalltrace::analysis {

/// Medians of the instances of one class.
struct ClassTimes {
  int64_t instances = 0;
  int64_t late_ns = 0;
  int64_t transfer_ns = 0;
  int64_t total_ns = 0;  // from the first arrival to the end
};

struct ComparedClass {
  CommHash hash = 0;  // 0: not compared by communicator
  Operation op = Operation::kAllReduce;
  std::optional<int64_t> bytes;
  std::optional<int32_t> nranks;
  ClassTimes a;
  ClassTimes b;
};

/// Compares complete instances that are not warming up: of one communicator, operation and size; if the jobs are two
/// (`by_communicator` is false), of one operation, size and number of ranks. What costs most more in `b` comes first;
/// classes that only one side has come last.
std::vector<ComparedClass> compare(const JobView& a, TimeRange range_a, const JobView& b, TimeRange range_b,
                                   bool by_communicator);

}  // namespace stalltrace::analysis
