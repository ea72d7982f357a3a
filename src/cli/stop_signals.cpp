// SPDX-License-Identifier: Apache-2.0
#include "cli/stop_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace stalltrace::cli {

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

}  // namespace stalltrace::cli
