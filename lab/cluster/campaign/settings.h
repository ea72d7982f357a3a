// SPDX-License-Identifier: Apache-2.0
// The jobs of a campaign: each workload's arguments, chosen so that a draw takes 5 to 8 s; a healthy one 30 s or more.
#pragma once

#include <string_view>

namespace stalltrace::lab {

/// Jobs that do not hang have time to recover from their fault.
inline constexpr std::string_view kTimeout = "--timeout 120s";

struct MatrixJob {
  int steps = 100;
  std::string_view hang_args;      // arguments for a job that hangs: room for start, fault, and at least 2 s to see it
  std::string_view workload_args;  // after the --
};
/// For a workload without a row of its own: the lab's default job.
MatrixJob matrix_job(std::string_view workload);

}  // namespace stalltrace::lab
