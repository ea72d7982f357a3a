// SPDX-License-Identifier: Apache-2.0
// Where between its bounds a host's clock is: the ranks of a collective end it at about the same time. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/thresholds/clocks.h"

namespace stalltrace::analysis {

/// A line through the differences between two hosts' ends of the collectives that both took part in. Nothing proves
/// it, as late arrivals prove bounds: it chooses between lines that are possible.
class CommonEnds {
 public:
  /// By the reference's clock: when the reference's first rank ended, less when the other host's first rank did.
  struct Difference {
    int64_t at_ns = 0;
    int64_t correction_ns = 0;
  };
  static constexpr size_t kSlices = kClockSlices;

  /// The first few of each slice are kept.
  void add(size_t slice, Difference difference);

  struct Line {
    int64_t at_ns = 0;
    int64_t correction_ns = 0;  // there
    double rate = 0;            // it grows by this with each ns
  };
  /// None if the differences are fewer than kFewestEnds, or do not lie along a line (kEndsScatterNs).
  [[nodiscard]] std::optional<Line> line() const;

 private:
  static constexpr uint8_t kOfSlice = 8;
  std::array<uint8_t, kSlices> of_slice_{};
  std::vector<Difference> differences_;
};

}  // namespace stalltrace::analysis
