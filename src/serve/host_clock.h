// SPDX-License-Identifier: Apache-2.0
// The clocks of this host, for others that compare them with theirs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stalltrace::serve {

struct HostClock {
  int64_t now_ns = 0;        // UTC
  int64_t monotonic_ns = 0;  // CLOCK_MONOTONIC, at the same moment: recordings are made of it
  std::string boot_id;
  std::optional<int64_t> utc_error_ns;  // kernel_utc_error_ns()
};

HostClock read_host_clock();

}  // namespace stalltrace::serve
