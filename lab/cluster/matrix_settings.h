// SPDX-License-Identifier: Apache-2.0
// The jobs that a campaign breaks: what each workload is asked for, so that a draw takes 5 to 8 s.
#pragma once

#include <string_view>

namespace stalltrace::lab {

/// A job that does not end by itself is ended after this; others have time to get over their fault.
inline constexpr std::string_view kTimeoutOfHang = "--timeout 6s";
inline constexpr std::string_view kTimeout = "--timeout 25s";

struct MatrixJob {
  std::string_view run_args;       // for `lab run`
  std::string_view workload_args;  // after the --
};
/// Of a workload without a row of its own: the lab's default job.
MatrixJob matrix_job(std::string_view workload);

}  // namespace stalltrace::lab
