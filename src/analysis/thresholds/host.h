// SPDX-License-Identifier: Apache-2.0
// What counters of a host show. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// Host counters are read once a second; a busy agent reads them late.
inline constexpr int64_t kHostSampleNs = 3 * kNsPerSecond;
/// Changes of a host counter in the second before and after a stall may belong to it: the counter was read once in
/// each.
inline constexpr int64_t kHostCounterAroundNs = kNsPerSecond;
/// A host is mentioned if its processes waited for memory in this share of the stalls; on a healthy host it is far
/// below one percent.
inline constexpr double kMemoryPressureShare = 0.1;
/// Packets of protocols that a host does not support (spanning tree, LLDP) count as dropped, less than one a second.
inline constexpr double kHostPacketsPerSecond = 1;
/// A receive cycle that ends early has lasted up to 2 ms (net.core.netdev_budget_usecs): this many take a fifth of a
/// CPU.
inline constexpr double kSqueezesPerSecond = 100;
/// A counter that rises all the time proves nothing about the stalls: around them it must rise faster by this factor.
inline constexpr double kHostCounterContrast = 2.0;
/// A hint names at most this many host counters.
inline constexpr size_t kMostHostCounters = 4;

}  // namespace stalltrace::analysis
