// SPDX-License-Identifier: Apache-2.0
// What `run` and `trace -- COMMAND` share: how long they wait, and their exit code if the command can't be started, the
// same as env, nohup and timeout return.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/framework/console.h"
#include "cli/framework/flag.h"
#include "launch/supervision/supervisor.h"

namespace stalltrace::cli {

/// None if the program exists. Otherwise the problem was printed, and the result is 127 (no such program) or 126 (not
/// executable).
std::optional<int> refuse_command(const std::vector<std::string>& command, Console& console);

/// How long a launcher waits for what records its command: a flag of the tests.
class Waits {
 public:
  /// --patience
  Flag flag();
  [[nodiscard]] launch::Patience patience() const;

 private:
  std::optional<int64_t> time_ns_;
};

/// What a launcher prints its errors with. Never waits for the reader of standard error for long.
launch::Supervisor::Report reporting_to(Console& console);

/// The result for an error of Job::start: 126 and a printed line, or the error itself if a signal prevented the start.
Result<int> code_of_failed_start(Error error, Console& console);

}  // namespace stalltrace::cli
