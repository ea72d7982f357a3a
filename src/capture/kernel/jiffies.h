// SPDX-License-Identifier: Apache-2.0
// The kernel's tick rate (CONFIG_HZ): connections' clocks count in jiffies.
#pragma once

#include <cstdint>
#include <optional>

namespace stalltrace::capture {

/// Ticks per second, measured over ten ticks with the program read_jiffies; nullopt where it can't be run.
std::optional<int64_t> measure_ticks_per_second(int read_jiffies_fd);

}  // namespace stalltrace::capture
