// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/killed_children.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/clock.h"

namespace stalltrace {

KilledChildren::~KilledChildren() {
  constexpr int kRounds = 20;
  for (int i = 0; i < kRounds && !killed_.empty(); ++i) {
    reap();
    ::usleep(killed_.empty() ? 0 : 1000);
  }
}

void KilledChildren::kill(pid_t child, const ChildsWork& work) {
  ::kill(child, signal_);
  killed_.push_back({.pid = child, .at_ns = monotonic_now_ns(), .work = work});
  reap();
}

void KilledChildren::reap() {
  std::erase_if(killed_, [](const Killed& one) { return ::waitpid(one.pid, nullptr, WNOHANG) != 0; });
}

size_t KilledChildren::alive_after(int64_t ns, const std::function<bool(const ChildsWork&)>& which) {
  reap();
  const int64_t now_ns = monotonic_now_ns();
  return static_cast<size_t>(std::ranges::count_if(
      killed_, [&](const Killed& one) { return now_ns - one.at_ns >= ns && (!which || which(one.work)); }));
}

}  // namespace stalltrace
