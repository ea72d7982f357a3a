// SPDX-License-Identifier: Apache-2.0
// The child's work between fork and exec, and its preparation. Internal to base/process.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "base/handle.h"
#include "base/process/subprocess.h"

namespace stalltrace {

/// The child's report to the parent, through a close-on-exec pipe, when it fails before exec.
struct ChildFailure {
  int step = 0;
  int error_number = 0;
};

/// Everything the child needs, allocated before fork: only async-signal-safe calls are allowed after it.
struct ChildPlan {
  std::string program;
  std::vector<char*> argv;
  std::vector<char*> shell_argv;  // argv to run the file through the shell
  std::vector<std::string> environment;
  std::vector<char*> envp;
  UniqueFd netns;
  std::array<UniqueFd, 3> files;
  std::array<int, 3> standard_fds = {-1, -1, -1};
  cpu_set_t cpus{};
  pid_t parent = 0;
};

/// Prepares the environment that `options` describes: opens files, looks the program up.
Result<ChildPlan> make_plan(const SpawnOptions& options);

/// The child's code up to exec, in async-signal-safe calls only. On failure it writes a ChildFailure to `report_fd` and
/// ends.
[[noreturn]] void run_child(const SpawnOptions& options, const ChildPlan& plan, int report_fd);

/// Names the failed step for an error message, such as "enter the network namespace".
const char* step_text(const ChildFailure& failure);

}  // namespace stalltrace
