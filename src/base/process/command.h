// SPDX-License-Identifier: Apache-2.0
// Commands: where a program is, what one prints, how one is written.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/subprocess.h"
#include "base/result.h"

namespace stalltrace {

struct CommandOutput {
  ExitStatus status;
  std::string out;
  std::string err;
};

/// Runs to the end and returns both outputs (at most 16 MiB each). An unsuccessful exit is a value; not being
/// able to start, or running past `limit` (it is killed then), is an error. stdout_path, stderr_path are ignored.
Result<CommandOutput> run_and_capture(SpawnOptions options, std::chrono::milliseconds limit);

/// The program's file in PATH or, since a plain user's PATH lacks them, /usr/sbin and /sbin.
Result<std::string> find_program(std::string_view name);

/// An argument vector as a person would type it, quoted for a shell where needed.
std::string format_command(const std::vector<std::string>& argv);

}  // namespace stalltrace
