// SPDX-License-Identifier: Apache-2.0
// The exit code of `run` and `trace -- COMMAND` if the command can't be started: the same as env, nohup and timeout
// return.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/framework/console.h"

namespace stalltrace::cli {

/// None if the program exists. Otherwise the problem was printed, and the result is 127 (no such program) or 126 (not
/// executable).
std::optional<int> refuse_command(const std::vector<std::string>& command, Console& console);

/// The result for an error of Job::start: 126 and a printed line, or the error itself if a signal prevented the start.
Result<int> code_of_failed_start(Error error, Console& console);

}  // namespace stalltrace::cli
