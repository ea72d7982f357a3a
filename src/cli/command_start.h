// SPDX-License-Identifier: Apache-2.0
// The exit code of `run` and `trace -- COMMAND` where the command can't be started: that of env, nohup and timeout.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/framework/console.h"

namespace stalltrace::cli {

/// None: there is such a program. Else what is wrong was printed: 127 there is none, 126 it can't be executed.
std::optional<int> refuse_command(const std::vector<std::string>& command, Console& console);

/// What follows from an error of Job::start: 126 and a line, or the error itself where a signal kept the command from
/// starting.
Result<int> code_of_failed_start(Error error, Console& console);

}  // namespace stalltrace::cli
