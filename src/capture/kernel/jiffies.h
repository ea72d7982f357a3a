// SPDX-License-Identifier: Apache-2.0
// How fast the kernel's clock ticks (CONFIG_HZ): connections' clocks count in its jiffies.
#pragma once

#include <cstdint>
#include <optional>

namespace stalltrace::capture {

/// Ticks per second, measured over ten of them with the program read_jiffies; none where it may not be run here.
std::optional<int64_t> measure_ticks_per_second(int read_jiffies_fd);

}  // namespace stalltrace::capture
