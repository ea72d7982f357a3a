// SPDX-License-Identifier: Apache-2.0
// UTC for one command: times of ours that nodes' clocks are compared with.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/clock.h"

namespace stalltrace::fleet {

/// UTC of the moment at which it was made, carried on by CLOCK_MONOTONIC. What sets this host's UTC afterwards moves
/// none of its times, so that a question takes as long as it took, and the answers of all nodes are compared with one
/// clock. Any thread. A copy gives the same times.
class SteadyUtc {
 public:
  using Monotonic = std::function<int64_t()>;

  SteadyUtc() : SteadyUtc(read_both_clocks()) {}
  explicit SteadyUtc(const ClockPair& begin, Monotonic monotonic = monotonic_now_ns)
      : begin_(begin), monotonic_(std::move(monotonic)) {}

  [[nodiscard]] int64_t now_ns() const { return begin_.utc_ns + (monotonic_() - begin_.monotonic_ns); }

 private:
  ClockPair begin_;
  Monotonic monotonic_;
};

}  // namespace stalltrace::fleet
