// SPDX-License-Identifier: Apache-2.0
#include "base/io/poll_until.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/clock.h"

namespace stalltrace {
namespace {

constexpr useconds_t kPauseAfterFailureUs = 1000;

/// Rounded up, so that it is not asked again and again in the last millisecond.
int left_ms(int64_t end_ns) {
  const int64_t left_ns = std::max<int64_t>(end_ns - monotonic_now_ns(), 0);
  return static_cast<int>(std::min<int64_t>(left_ns / kNsPerMs + (left_ns % kNsPerMs > 0 ? 1 : 0), INT_MAX));
}

}  // namespace

bool poll_until(std::span<pollfd> fds, int64_t end_ns) {
  for (;;) {
    const int limit_ms = end_ns == kNoEnd ? -1 : left_ms(end_ns);
    const int ready = ::poll(fds.data(), fds.size(), limit_ms);
    if (ready > 0) {
      return true;
    }
    if (limit_ms == 0) {
      return false;
    }
    if (ready < 0 && errno != EINTR) {
      ::usleep(kPauseAfterFailureUs);
    }
  }
}

bool poll_until(std::span<pollfd> fds, std::chrono::steady_clock::time_point end) {
  return poll_until(fds, std::chrono::nanoseconds(end.time_since_epoch()).count());
}

bool wait_readable(int fd, int64_t end_ns) {
  pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
  return poll_until({&one, 1}, end_ns);
}

}  // namespace stalltrace
