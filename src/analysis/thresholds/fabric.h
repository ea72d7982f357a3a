// SPDX-License-Identifier: Apache-2.0
// What port counters of InfiniBand and RoCE show. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// Healthy links count a symbol error now and then; a failing link counts them continuously.
inline constexpr double kFabricErrorsPerSecond = 10;
/// A port's counter stands out if it rises this many times as fast as far from all stalls, and as at the middle one of
/// the other nodes. The ranks' ports carry like amounts of data, and seconds of one port scatter by about 2.
inline constexpr double kPortContrast = 4.0;
/// Counters of ports are also read for this long before the first stall and after the last one, to compare with.
inline constexpr int64_t kCalmAroundNs = 30 * kNsPerSecond;
/// Fewer marks or notifications a second slow nothing: at 100 Gbit/s a port moves some 3 million packets of 4 KiB.
inline constexpr double kCongestionMarksPerSecond = 1000;
/// The length of a tick of port_xmit_wait differs by card; at 1 ns or more this is a hundredth of the time or more.
inline constexpr double kCreditWaitsPerSecond = 10'000'000;

}  // namespace stalltrace::analysis
