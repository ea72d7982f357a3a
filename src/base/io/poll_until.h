// SPDX-License-Identifier: Apache-2.0
// Waiting for descriptors until a time, whatever interrupts it.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <span>

namespace stalltrace {

/// For `end_ns`: however long it takes.
inline constexpr int64_t kNoEnd = INT64_MAX;

/// poll() until one of the descriptors is ready: true, and `revents` are set. False: the time has come
/// (CLOCK_MONOTONIC, in nanoseconds), and none is. A time that is over looks once at what is ready. Signals do not end
/// it; where poll() fails (no memory), it is tried again.
bool poll_until(std::span<pollfd> fds, int64_t end_ns);

/// The same by the clock of the standard library, which is CLOCK_MONOTONIC too.
bool poll_until(std::span<pollfd> fds, std::chrono::steady_clock::time_point end);

/// The same for one descriptor that is to be read. True also at its end, and where it has an error.
bool wait_readable(int fd, int64_t end_ns);

}  // namespace stalltrace
