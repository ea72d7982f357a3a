// SPDX-License-Identifier: Apache-2.0
#include "launch/job_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <system_error>

namespace stalltrace::launch {
namespace {

constexpr std::array kAskForAnEnd = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
/// Each of these ends a process by default; batch systems announce the end of a job with them.
constexpr std::array kNotices = {SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGPWR};
/// A batch system that signals a job's processes one by one reaches all of them within this time.
constexpr std::chrono::milliseconds kOneAfterTheOther{30};

bool sent_by_a_process(const signalfd_siginfo& info) { return info.ssi_code <= 0; }

}  // namespace

JobSignals::JobSignals() : at_start_(SignalState::current()) {
  sigset_t held;
  ::sigemptyset(&held);
  const auto hold = [&](int number) { ::sigaddset(&held, number); };
  std::ranges::for_each(kAskForAnEnd, hold);
  std::ranges::for_each(kNotices, hold);
  ::pthread_sigmask(SIG_BLOCK, &held, nullptr);
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &by_default, &child_at_start_);
  signals_ = UniqueFd(::signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals_) {
    wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  }
  if (!wake_) {
    ready_ = fail_errno("pass signals on", errno);
    return;
  }
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { pass_on(stop); });
  } catch (const std::system_error& error) {
    ready_ = fail_errno("pass signals on: start a thread", error.code().value());
  }
}

JobSignals::~JobSignals() {
  release();
  ::sigaction(SIGCHLD, &child_at_start_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &at_start_.mask, nullptr);
}

std::optional<int> JobSignals::take_early() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (const int number = static_cast<int>(info.ssi_signo); !ignored_at_start(number)) {
      return number;
    }
  }
  return std::nullopt;
}

bool JobSignals::ignored_at_start(int number) const { return ::sigismember(&at_start_.ignored, number) == 1; }

void JobSignals::pass_to(const Subprocess& command) {
  command_pid_ = command.pid();
  wake();
}

void JobSignals::wake() {
  const uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void JobSignals::pass_on(const std::stop_token& stop) {
  pollfd waits[] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                    {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
  nfds_t waited = 1;  // until there is a command, it waits only for that
  while (!stop.stop_requested()) {
    if (::poll(waits, waited, -1) < 0 && errno != EINTR) {
      return;
    }
    uint64_t times = 0;
    if (::read(wake_.get(), &times, sizeof times) == sizeof times) {
      waited = std::size(waits);
    }
    if (waited == 1) {
      continue;
    }
    signalfd_siginfo info;
    while (!stop.stop_requested() && ::read(signals_.get(), &info, sizeof info) == sizeof info) {
      pass(info);
    }
  }
}

void JobSignals::pass(const signalfd_siginfo& info) {
  const int number = static_cast<int>(info.ssi_signo);
  if (std::ranges::find(kAskForAnEnd, number) != kAskForAnEnd.end() && !ignored_at_start(number)) {
    asked_to_end_ = true;
  }
  if (witness_.got(number, kOneAfterTheOther)) {
    return;
  }
  const bool from_command = sent_by_a_process(info) && static_cast<pid_t>(info.ssi_pid) == command_pid_;
  const bool our_limit = number == SIGXCPU && !sent_by_a_process(info);
  if (!from_command && !our_limit && command_pid_ > 0) {
    ::kill(command_pid_, number);  // no effect on a process that has ended and is not reaped
  }
}

void JobSignals::stop_passing() {
  if (thread_.joinable()) {
    thread_.request_stop();
    wake();
    thread_.join();
  }
}

void JobSignals::release() {
  stop_passing();
  while (take_early()) {
  }
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int number : kAskForAnEnd) {
    if (::sigismember(&at_start_.mask, number) == 0) {
      ::sigaddset(&ends, number);
    }
  }
  ::pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
}

}  // namespace stalltrace::launch
