// SPDX-License-Identifier: Apache-2.0
// Numbers of the agent and of the profiler plugin that shape what they record. This room may not include them:
// tests/sources/shared_numbers_test compares each of these with its original.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stalltrace::simulation::agent {

// When stacks are read: capture/python/late_watch.h.
inline constexpr int64_t kLateNs = 150 * kNsPerMs;
inline constexpr int64_t kStillNs = 2 * kNsPerSecond;
inline constexpr int64_t kAgain = 4;
inline constexpr int64_t kMostAtOnce = 6;
inline constexpr int64_t kEveryNs = 10 * kNsPerSecond;
inline constexpr int64_t kKept = 2;
inline constexpr size_t kMostOutside = 8;
inline constexpr size_t kMostInside = 4;

// Reading profiler files: blackbox/follow/follower.h.
inline constexpr int64_t kReadOpenNs = kNsPerSecond;
inline constexpr size_t kStepsAtOnce = 500;
inline constexpr int64_t kOpenWaitNs = 200 * kNsPerMs;

// Which steps have a row of their own: plugin/wire/blackbox.h.
inline constexpr int64_t kLongStepNs = 5 * kNsPerMs;
inline constexpr int32_t kStepsUnderWay = 8;

}  // namespace stalltrace::simulation::agent
