// SPDX-License-Identifier: Apache-2.0
// Which counters of InfiniBand and RoCE ports are read from sysfs: those that count errors, congestion and data. All
// would be hundreds of files, and some ask the card's firmware. Pure data.
#pragma once

#include <span>
#include <string_view>

namespace stalltrace::capture {

/// File names in ports/N/counters and ports/N/hw_counters (Documentation/ABI/stable/sysfs-class-infiniband and the
/// drivers' own).
std::span<const std::string_view> recorded_port_counters();

}  // namespace stalltrace::capture
