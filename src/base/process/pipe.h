// SPDX-License-Identifier: Apache-2.0
// Pipes, and waiting for them. Internal to base/process.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <vector>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

/// Both ends are closed on exec.
inline Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("make a pipe", errno);
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// poll that continues after interruptions; false if the deadline passed first.
inline bool poll_until(std::vector<pollfd>& fds, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left_ms =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (::poll(fds.data(), fds.size(), static_cast<int>(std::clamp<int64_t>(left_ms, 0, INT_MAX))) > 0) {
      return true;
    }
    if (left_ms <= 0) {
      return false;
    }
  }
}

}  // namespace stalltrace
