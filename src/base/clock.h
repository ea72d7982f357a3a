// SPDX-License-Identifier: Apache-2.0
// Clocks. The kernel side uses CLOCK_MONOTONIC (bpf_ktime_get_ns); a recording holds UTC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stalltrace {

inline constexpr int64_t kNsPerUs = 1'000;
inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

int64_t monotonic_now_ns();
int64_t utc_now_ns();

/// Both clocks at one moment.
struct ClockPair {
  int64_t monotonic_ns = 0;
  int64_t utc_ns = 0;
  int64_t window_ns = 0;  // the two were read within this
};

/// The narrowest of several bracketed readings: its window is usually well below a microsecond.
ClockPair read_both_clocks();

/// UTC minus CLOCK_MONOTONIC, in nanoseconds, of read_both_clocks().
int64_t measure_utc_offset_ns();

/// How far UTC may be off, as the kernel has it from what keeps it right, chrony or ntpd (adjtimex(2): maxerror); none:
/// nothing does (STA_UNSYNC or TIME_ERROR), or what does reports no error.
std::optional<int64_t> kernel_utc_error_ns();

/// "2026-01-31T02:47:00.123456Z" for UTC nanoseconds.
std::string format_utc(int64_t utc_ns);

}  // namespace stalltrace
