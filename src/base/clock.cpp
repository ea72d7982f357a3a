// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <fmt/format.h>

#include <ctime>
#include <limits>

namespace stalltrace {
namespace {

int64_t read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

}  // namespace

int64_t monotonic_now_ns() { return read_clock(CLOCK_MONOTONIC); }
int64_t utc_now_ns() { return read_clock(CLOCK_REALTIME); }

int64_t measure_utc_offset_ns() {
  int64_t best_width = std::numeric_limits<int64_t>::max();
  int64_t best_offset = 0;
  for (int i = 0; i < 16; ++i) {
    const int64_t before = read_clock(CLOCK_MONOTONIC);
    const int64_t utc = read_clock(CLOCK_REALTIME);
    const int64_t after = read_clock(CLOCK_MONOTONIC);
    if (after - before < best_width) {
      best_width = after - before;
      best_offset = utc - (before + best_width / 2);
    }
  }
  return best_offset;
}

std::string format_utc(int64_t utc_ns) {
  const time_t seconds = static_cast<time_t>(utc_ns / kNsPerSecond);
  tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, utc_ns % kNsPerSecond / kNsPerUs);
}

}  // namespace stalltrace
