// SPDX-License-Identifier: Apache-2.0
#include "cli/child_command.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <iterator>
#include <optional>

namespace stalltrace::cli {
namespace {

constexpr std::chrono::milliseconds kCommandGrace = std::chrono::seconds(10);

}  // namespace

StopSignals::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {  // not under nohup
    sigaddset(&signals, SIGHUP);
  }
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  fd_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

StopSignals::~StopSignals() {
  signalfd_siginfo pending;
  while (fd_ && ::read(fd_.get(), &pending, sizeof pending) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Result<int> command_exit(Subprocess& command, const StopSignals& signals) {
  pollfd waits[] = {{.fd = command.pidfd(), .events = POLLIN, .revents = 0},
                    {.fd = signals.descriptor(), .events = POLLIN, .revents = 0}};
  while (::poll(waits, std::size(waits), -1) < 0 && errno == EINTR) {
  }
  ST_ASSIGN(std::optional<ExitStatus> ended, command.wait_for(kCommandGrace));
  if (!ended) {
    ST_ASSIGN(ended, command.terminate(SIGTERM, kCommandGrace));
  }
  return ended->shell_code();
}

}  // namespace stalltrace::cli
