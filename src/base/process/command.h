// SPDX-License-Identifier: Apache-2.0
// Commands: finding a program, capturing its output, formatting a command line.
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

/// Runs to the end and returns both outputs (at most 16 MiB each). An unsuccessful exit is a value; failure to start is
/// an error, and so is running longer than `limit`, after which the child is killed. Ignores stdout_path and
/// stderr_path.
Result<CommandOutput> run_and_capture(SpawnOptions options, std::chrono::milliseconds limit);

/// The program's file in PATH, or in /usr/sbin and /sbin, which a plain user's PATH lacks.
Result<std::string> find_program(std::string_view name);

/// An argument vector as a command line, quoted for a shell where needed.
std::string format_command(const std::vector<std::string>& argv);

}  // namespace stalltrace
