// SPDX-License-Identifier: Apache-2.0
// The recorded counters of InfiniBand and RoCE ports and their meaning. Reading all would mean hundreds of files, and
// some query the card's firmware. The names are files in ports/N/counters and ports/N/hw_counters of sysfs
// (Documentation/ABI/stable/sysfs-class-infiniband, and the drivers' own).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace stalltrace {

enum class PortCounterKind : uint8_t {
  kError,      // a link error, or a packet that did not arrive
  kAmbiguous,  // rises in good health too: packets that took different ways (adaptive routing), late answers
  kMarked,     // congestion: packets marked on the way to this port, and the notifications that it sent for them
  kThrottled,  // congestion: notifications that asked this port to send more slowly
  kNoCredit,   // congestion: ticks in which the port had data to send and its neighbour had no room
  kData,
};
/// `meaning` is a clause on what was counted, `action` one on what to do where it grows. Sources: the kernel's page
/// above, of mlx5's counters NVIDIA's "Understanding mlx5 Linux Counters and Status Parameters" and the drivers'
/// commits.
struct PortCounterName {
  std::string_view name;
  PortCounterKind kind;
  std::string_view meaning;
  std::string_view action;
};

std::span<const PortCounterName> port_counter_names();
/// None for a counter that is not recorded.
std::optional<PortCounterKind> kind_of_port_counter(std::string_view name);

}  // namespace stalltrace
