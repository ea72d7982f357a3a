// SPDX-License-Identifier: Apache-2.0
// What a child process does between fork and exec, and what is prepared for that before. Internal to base/process.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "base/handle.h"
#include "base/process/subprocess.h"

namespace stalltrace {

/// What the child reports to the parent through a close-on-exec pipe when it can't get as far as exec.
struct ChildFailure {
  int step = 0;
  int error_number = 0;
};

/// Everything the child needs, made before fork: after it, only async-signal-safe calls are allowed.
struct ChildPlan {
  std::string program;
  std::vector<char*> argv;
  std::vector<char*> shell_argv;  // the same through the shell
  std::vector<std::string> environment;
  std::vector<char*> envp;
  UniqueFd netns;
  std::array<UniqueFd, 3> files;
  std::array<int, 3> standard_fds = {-1, -1, -1};
  cpu_set_t cpus{};
  pid_t parent = 0;
};

/// The surroundings that `options` asks for: files are opened, the program is looked up.
Result<ChildPlan> make_plan(const SpawnOptions& options);

/// The child's whole life up to exec, in async-signal-safe calls alone. Where it does not get there, it writes a
/// ChildFailure to `report_fd` and ends.
[[noreturn]] void run_child(const SpawnOptions& options, const ChildPlan& plan, int report_fd);

/// The failed step for a person, such as "enter the network namespace".
const char* step_text(const ChildFailure& failure);

}  // namespace stalltrace
