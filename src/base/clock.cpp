// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <fmt/format.h>
#include <sys/timex.h>

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

ClockPair read_both_clocks() {
  ClockPair best{.window_ns = std::numeric_limits<int64_t>::max()};
  for (int i = 0; i < 16; ++i) {
    const int64_t before = read_clock(CLOCK_MONOTONIC);
    const int64_t utc = read_clock(CLOCK_REALTIME);
    const int64_t after = read_clock(CLOCK_MONOTONIC);
    if (after - before < best.window_ns) {
      best = {.monotonic_ns = before + (after - before) / 2, .utc_ns = utc, .window_ns = after - before};
    }
  }
  return best;
}

int64_t measure_utc_offset_ns() {
  const ClockPair pair = read_both_clocks();
  return pair.utc_ns - pair.monotonic_ns;
}

std::optional<int64_t> kernel_utc_error_ns() {
  timex state{};  // modes 0: nothing is set
  const int code = ::adjtimex(&state);
  const bool is_kept_right = code >= 0 && code != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  // systemd-timesyncd and phc2sys report no error: they set maxerror to 0 again and again, so that the kernel does not
  // call the clock unsynchronised. The first sets esterror to 0 too, the second leaves it at the kernel's 16 s.
  const bool has_an_error = state.esterror > 0 && state.maxerror >= state.esterror;
  if (!is_kept_right || !has_an_error) {
    return std::nullopt;
  }
  return int64_t{state.maxerror} * kNsPerUs;
}

std::string format_utc(int64_t utc_ns) {
  const time_t seconds = static_cast<time_t>(utc_ns / kNsPerSecond);
  tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, utc_ns % kNsPerSecond / kNsPerUs);
}

}  // namespace stalltrace
