// SPDX-License-Identifier: Apache-2.0
// Which counters of InfiniBand and RoCE ports are recorded, and what each counts. All would be hundreds of files, and
// some ask the card's firmware. The names are files in ports/N/counters and ports/N/hw_counters of sysfs
// (Documentation/ABI/stable/sysfs-class-infiniband, and the drivers' own).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace stalltrace {

enum class PortCounterKind : uint8_t {
  kError,       // of the link, or a packet that did not arrive
  kRepetition,  // a request that came twice: the answer to it was late or lost, here or there
  kCongestion,  // no error
  kData,
};
struct PortCounterName {
  std::string_view name;
  PortCounterKind kind;
};

std::span<const PortCounterName> port_counter_names();
/// Nothing for a counter that is not recorded.
std::optional<PortCounterKind> kind_of_port_counter(std::string_view name);

}  // namespace stalltrace
