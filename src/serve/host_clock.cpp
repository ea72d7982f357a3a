// SPDX-License-Identifier: Apache-2.0
#include "serve/host_clock.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

namespace stalltrace::serve {

HostClock read_host_clock() {
  constexpr size_t kIdBytes = 64;
  HostClock clock;
  const auto id = read_file("/proc/sys/kernel/random/boot_id", kIdBytes);
  clock.boot_id = id ? std::string(trim(*id)) : "";
  clock.utc_error_ns = kernel_utc_error_ns();
  // The last: the answer's way begins here.
  const int64_t before_ns = monotonic_now_ns();
  clock.now_ns = utc_now_ns();
  clock.monotonic_ns = before_ns + (monotonic_now_ns() - before_ns) / 2;
  return clock;
}

}  // namespace stalltrace::serve
