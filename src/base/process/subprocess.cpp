// SPDX-License-Identifier: Apache-2.0
#include "base/process/subprocess.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/io/pipe.h"
#include "base/io/poll_until.h"
#include "base/process/child_setup.h"

namespace stalltrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

ExitStatus exit_status(const siginfo_t& info) {
  ExitStatus status;
  (info.si_code == CLD_EXITED ? status.code : status.signal) = info.si_status;
  return status;
}

}  // namespace

std::string format_exit(const ExitStatus& status) {
  if (status.signal) {
    return "signal " + std::to_string(*status.signal) + " (" + ::strsignal(*status.signal) + ")";
  }
  return "exit code " + std::to_string(status.code.value_or(-1));
}

SignalState SignalState::current() {
  SignalState state;
  ::sigemptyset(&state.ignored);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
      ::sigaddset(&state.ignored, number);
    }
  }
  ::pthread_sigmask(SIG_SETMASK, nullptr, &state.mask);
  return state;
}

Result<Subprocess> Subprocess::spawn(const SpawnOptions& options) {
  const std::string name = options.argv.empty() ? std::string("(nothing)") : options.argv[0];
  auto plan = make_plan(options);
  if (!plan) {
    return with_context("start " + name, plan.error());
  }
  ST_ASSIGN(Pipe report, make_pipe());
  const pid_t pid = ::fork();
  if (pid < 0) {
    return fail_errno("start " + name, errno);
  }
  if (pid == 0) {
    run_child(options, *plan, report.write_end.get());
  }
  report.write_end.reset();
  Subprocess child(pid);
  ChildFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(report.read_end.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof failure) {
    return fail_errno("start " + name + ": " + step_text(failure), failure.error_number);
  }
  report.read_end.reset();  // its number is free now: the child runs, and must not be lost for want of a descriptor
  auto end = EndWatch::start(pid);
  if (!end) {
    return with_context("start " + name, end.error());
  }
  child.end_ = std::move(*end);
  return child;
}

Result<Subprocess> Subprocess::adopt(pid_t child) {
  Subprocess process(child);
  ST_ASSIGN(process.end_, EndWatch::start(child));
  return process;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), end_(std::move(other.end_)), status_(other.status_) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  if (this != &other) {
    this->~Subprocess();
    new (this) Subprocess(std::move(other));
  }
  return *this;
}

Subprocess::~Subprocess() {
  if (running()) {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
    }
  }
}

Result<std::optional<ExitStatus>> Subprocess::try_wait() { return wait_for(milliseconds(0)); }

Result<std::optional<ExitStatus>> Subprocess::wait_for(milliseconds limit) {
  if (!running()) {
    return status_;
  }
  std::vector<pollfd> fds = {{end_.descriptor(), POLLIN, 0}};
  if (!poll_until(fds, Clock::now() + limit)) {
    return std::nullopt;
  }
  siginfo_t info{};
  int waited = 0;
  do {
    waited = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG);
  } while (waited != 0 && errno == EINTR);
  if (waited != 0) {
    return fail_errno("wait for process " + std::to_string(pid_), errno);
  }
  if (info.si_pid == 0) {
    return std::nullopt;
  }
  status_ = exit_status(info);
  end_.reset();
  return status_;
}

Status Subprocess::send_signal(int signal_number) {
  if (running() && ::kill(pid_, signal_number) != 0) {
    return fail_errno("signal process " + std::to_string(pid_), errno);
  }
  return {};
}

Result<ExitStatus> Subprocess::terminate(int polite_signal, milliseconds grace) {
  constexpr milliseconds kKillLimit{10'000};
  ST_TRY(send_signal(polite_signal));
  ST_ASSIGN(std::optional<ExitStatus> ended, wait_for(grace));
  if (!ended) {
    ST_TRY(send_signal(SIGKILL));
    ST_ASSIGN(ended, wait_for(kKillLimit));
  }
  if (!ended) {
    return fail("process " + std::to_string(pid_) + " does not end", "it waits in the kernel: see /proc/PID/stack");
  }
  return *ended;
}

pid_t Subprocess::detach() {
  end_.reset();
  status_.reset();
  return std::exchange(pid_, -1);
}

}  // namespace stalltrace
