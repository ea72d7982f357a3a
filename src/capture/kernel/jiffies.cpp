// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/jiffies.h"

#include <bpf/bpf.h>
#include <unistd.h>

#include <cstdlib>

#include "base/clock.h"

namespace stalltrace::capture {
namespace {

constexpr int64_t kJiffiesMask = 0x7fffffff;  // the range of read_jiffies

}  // namespace

std::optional<int64_t> measure_ticks_per_second(int read_jiffies_fd) {
  const auto jiffies = [&]() -> int64_t {
    LIBBPF_OPTS(bpf_test_run_opts, run);
    return bpf_prog_test_run_opts(read_jiffies_fd, &run) == 0 ? static_cast<int64_t>(run.retval) : -1;
  };
  const auto wait_for_change = [&](int64_t from, int64_t ticks) {
    int64_t now = from;
    while (now >= 0 && ((now - from) & kJiffiesMask) < ticks) {
      usleep(100);
      now = jiffies();
    }
    return now;
  };
  const int64_t first = jiffies();
  if (first < 0) {
    return std::nullopt;
  }
  constexpr int64_t kTicks = 10;
  const int64_t edge = wait_for_change(first, 1);
  const int64_t start_ns = monotonic_now_ns();
  const int64_t last = wait_for_change(edge, kTicks);
  const double rate = static_cast<double>((last - edge) & kJiffiesMask) * kNsPerSecond /
                      static_cast<double>(monotonic_now_ns() - start_ns);
  int64_t best = 250;
  for (const int64_t candidate : {100, 250, 300, 1000}) {
    if (std::abs(rate - static_cast<double>(candidate)) < std::abs(rate - static_cast<double>(best))) {
      best = candidate;
    }
  }
  return best;
}

}  // namespace stalltrace::capture
