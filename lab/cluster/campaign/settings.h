// SPDX-License-Identifier: Apache-2.0
// The jobs that a campaign breaks: what each workload is asked for, so that a draw takes 5 to 8 s.
#pragma once

#include <string_view>

namespace stalltrace::lab {

/// Others than those that hang have time to get over their fault.
inline constexpr std::string_view kTimeout = "--timeout 60s";

struct MatrixJob {
  int steps = 100;
  std::string_view hang_args;  // the same, when it is not to end by itself: start, fault, and 2 s at least to see it
  std::string_view workload_args;  // after the --
};
/// Of a workload without a row of its own: the lab's default job.
MatrixJob matrix_job(std::string_view workload);

}  // namespace stalltrace::lab
