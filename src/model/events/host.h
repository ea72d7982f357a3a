// SPDX-License-Identifier: Apache-2.0
// Numbers about a host.
#pragma once

#include <cstdint>
#include <optional>
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

/// What the kernel reported of the host's clock.
struct ClockReading {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int64_t utc_ns = 0;                   // CLOCK_REALTIME at that moment: another time once that clock was set
  int64_t window_ns = 0;                // the two clocks were read within this
  std::optional<int64_t> max_error_ns;  // utc_ns is off by no more than this (adjtimex(2)); none: not known
};

template <>
struct EventTraits<HostSample> : StreamTraits<HostSample, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "host_sample";
};

template <>
struct EventTraits<PortCounter> : StreamTraits<PortCounter, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "port_counter";
};

template <>
struct EventTraits<ClockReading> : StreamTraits<ClockReading, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "clock_reading";
};

inline constexpr TypeList<HostSample, PortCounter, ClockReading> kHostTypes;

}  // namespace stalltrace
