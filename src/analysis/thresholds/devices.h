// SPDX-License-Identifier: Apache-2.0
// Kernel logs, and the state of GPUs. Thresholds of verdicts, with their reasons.
// The pages in docs/ have the same numbers; tests/checks/thresholds_test.py compares them.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace stalltrace::analysis {

/// What a kernel's log reports is the job's if it came at most this long before its first collective or after its last:
/// a job starts before its first collective, and may hang for its library's time-out after its last.
inline constexpr int64_t kDeviceSlackNs = 1800 * kNsPerSecond;
/// Times without an offset from UTC may be off by this: no zone is further from UTC.
inline constexpr int64_t kLargestTimeZoneNs = 50'400 * kNsPerSecond;
/// The message names the process of a rank on its host.
inline constexpr double kDeviceOfRankConfidence = 0.9;
/// It names a host of the job, or a rank's process without the host.
inline constexpr double kDeviceOfHostConfidence = 0.6;
/// Nothing shows that the host had a part in the job.
inline constexpr double kDeviceAloneConfidence = 0.4;

}  // namespace stalltrace::analysis
