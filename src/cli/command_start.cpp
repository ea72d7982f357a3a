// SPDX-License-Identifier: Apache-2.0
#include "cli/command_start.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
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

Flag Waits::flag() {
  return hidden(duration_flag("--patience", "wait that long for what records the command", &time_ns_));
}

launch::Patience Waits::patience() const {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  return time_ns_ ? launch::Patience::of(duration_cast<milliseconds>(std::chrono::nanoseconds(*time_ns_)))
                  : launch::Patience();
}

launch::Supervisor::Report reporting_to(Console& console) {
  return [&console](const Error& error) {
    constexpr int kFullMs = 1000;  // a pipe that is not emptied must not keep us from the command's end
    pollfd reader{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&reader, 1, kFullMs) == 1) {
      console.error(error);
    }
  };
}

Result<int> code_of_failed_start(Error error, Console& console) {
  if (error.kind == ErrorKind::kInterrupted) {
    return std::unexpected(std::move(error));
  }
  console.error(error);
  return kExitNotExecutable;
}

}  // namespace stalltrace::cli
