// SPDX-License-Identifier: Apache-2.0
#include "cli/command_start.h"

#include <utility>

#include "cli/framework/exit_code.h"
#include "launch/job.h"

namespace stalltrace::cli {

std::optional<int> refuse_command(const std::vector<std::string>& command, Console& console) {
  const Status checked = launch::Job::check(command);
  if (checked) {
    return std::nullopt;
  }
  console.error(checked.error());
  return checked.error().kind == ErrorKind::kNotFound ? kExitNoCommand : kExitNotExecutable;
}

Result<int> code_of_failed_start(Error error, Console& console) {
  if (error.kind == ErrorKind::kInterrupted) {
    return std::unexpected(std::move(error));
  }
  console.error(error);
  return kExitNotExecutable;
}

}  // namespace stalltrace::cli
