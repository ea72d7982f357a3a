// SPDX-License-Identifier: Apache-2.0
// Clocks. The kernel side uses CLOCK_MONOTONIC (bpf_ktime_get_ns); a recording holds UTC.
#pragma once

#include <cstdint>
#include <string>

namespace stalltrace {

inline constexpr int64_t kNsPerUs = 1'000;
inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

int64_t monotonic_now_ns();
int64_t utc_now_ns();

/// UTC minus CLOCK_MONOTONIC, in nanoseconds: the narrowest of several bracketed readings, so that its error is well
/// below a microsecond.
int64_t measure_utc_offset_ns();

/// "2026-01-31T02:47:00.123456Z" for UTC nanoseconds.
std::string format_utc(int64_t utc_ns);

}  // namespace stalltrace
