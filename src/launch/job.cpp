// SPDX-License-Identifier: Apache-2.0
#include "launch/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>

#include "base/handle.h"
#include "base/process/command.h"
#include "base/text.h"

namespace stalltrace::launch {
namespace {

/// Descriptors meant for a program that we start: a shell's <(...), a batch system's channel to its processes (PMI_FD).
std::vector<int> descriptors_handed_to_us(int not_for_it) {
  std::vector<int> handed;
  const std::unique_ptr<DIR, Free<closedir>> names(::opendir("/proc/self/fd"));
  while (const dirent* entry = names ? ::readdir(names.get()) : nullptr) {
    const auto fd = static_cast<int>(parse_integer(entry->d_name).value_or(-1));
    const int flags = fd > STDERR_FILENO && fd != not_for_it ? ::fcntl(fd, F_GETFD) : -1;
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) {
      handed.push_back(fd);
    }
  }
  return handed;
}

}  // namespace

Job::Job(int not_for_it) : handed_(descriptors_handed_to_us(not_for_it)) {}

Job::~Job() {
  if (command_.running()) {
    command_.detach();
  }
}

Status Job::check(const std::vector<std::string>& argv) {
  ST_ASSIGN(const std::string program, find_program(argv.front()));
  if (::access(program.c_str(), X_OK) != 0) {
    return fail_errno("start " + program, errno);
  }
  return {};
}

Status Job::start(const std::vector<std::string>& argv, const std::vector<std::string>& environment) {
  if (interrupted()) {
    return fail(fmt::format("{} came before {} was started: it was not", ::strsignal(*early_), argv.front()), {},
                ErrorKind::kInterrupted);
  }
  if (!signals_.ready()) {
    return with_context("start " + argv.front(), signals_.ready().error());
  }
  ST_ASSIGN(command_,
            Subprocess::spawn(
                {.argv = argv, .environment = environment, .kept_fds = handed_, .signals = signals_.at_start()}));
  signals_.pass_to(command_);
  return {};
}

bool Job::interrupted() {
  if (!early_) {
    early_ = signals_.take_early();
  }
  return early_.has_value();
}

Result<int> Job::wait() {
  pollfd end{.fd = descriptor(), .events = POLLIN, .revents = 0};
  while (command_.running() && ::poll(&end, 1, -1) < 0 && errno == EINTR) {
  }
  signals_.stop_passing();  // before it is reaped: afterwards its number may belong to another process
  std::optional<ExitStatus> ended;
  while (!ended) {
    ST_ASSIGN(ended, command_.wait_for(std::chrono::hours(1)));
  }
  return ended->shell_code();
}

}  // namespace stalltrace::launch
