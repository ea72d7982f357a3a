// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/host/interrupt.h"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstring>

namespace stalltrace::lab {

InterruptGuard::InterruptGuard() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    ::sigaddset(&signals, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
  fd_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

InterruptGuard::~InterruptGuard() {
  signalfd_siginfo ignored{};
  while (fd_ && ::read(fd_.get(), &ignored, sizeof ignored) == sizeof ignored) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Status InterruptGuard::check() {
  signalfd_siginfo info{};
  if (!signal_ && fd_ && ::read(fd_.get(), &info, sizeof info) == sizeof info) {
    signal_ = static_cast<int>(info.ssi_signo);
  }
  if (signal_) {
    return fail(fmt::format("interrupted by SIG{}", ::sigabbrev_np(*signal_)), {}, ErrorKind::kInterrupted);
  }
  return {};
}

}  // namespace stalltrace::lab
