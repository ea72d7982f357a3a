// SPDX-License-Identifier: Apache-2.0
// Numbers about a host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/events/event_traits.h"
#include "model/events/ids.h"

namespace stalltrace {

/// A host counter, cumulative unless its name ends in "_now".
struct HostSample {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  std::string name;
  std::string detail;  // interface, CPU, cgroup; may be empty
  double value = 0;
};

/// An InfiniBand or RoCE port counter.
struct PortCounter {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  std::string device;
  int32_t port = 0;
  std::string name;
  uint64_t value = 0;
};

template <>
struct EventTraits<HostSample> : StreamTraits<HostSample, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "host_sample";
};

template <>
struct EventTraits<PortCounter> : StreamTraits<PortCounter, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "port_counter";
};

inline constexpr TypeList<HostSample, PortCounter> kHostTypes;

}  // namespace stalltrace
