// SPDX-License-Identifier: Apache-2.0
// What the kernel reports of the host's clock → rows of `clock_reading`. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "model/events.h"

namespace stalltrace::capture {

/// The clocks of this host, or those of a test.
struct KernelClock {
  std::function<ClockPair()> read = read_both_clocks;
  std::function<std::optional<int64_t>()> utc_error_ns = kernel_utc_error_ns;
};

class ClockReader {
 public:
  /// `sink` must outlive the reader.
  ClockReader(const Node& node, EventSink& sink, KernelClock clock = {})
      : node_(node.node_id), clock_offset_ns_(node.clock_offset_ns), sink_(sink), clock_(std::move(clock)) {}

  /// Makes a row: a system call, and a few dozen readings of clocks that take none.
  void read();
  /// Does so if a minute of UTC began since the last row: hosts whose clocks are right then read at the same time.
  void read_each_minute(int64_t utc_ns);

 private:
  NodeId node_;
  int64_t clock_offset_ns_;
  EventSink& sink_;
  KernelClock clock_;
  int64_t minute_ = 0;  // of the last row
};

}  // namespace stalltrace::capture
