// SPDX-License-Identifier: Apache-2.0
// How a node's times relate to the common clock of a report.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "model/events.h"

namespace stalltrace {

/// How the distance of a node's clock from the common one changes. By default it does not.
struct ClockDrift {
  double rate = 0;       // what is to be added grows by this with each ns
  int64_t at_ns = 0;     // there it is NodeClock::shift_ns; by the node's clock
  int64_t reach_ns = 0;  // it changes no more that far before and after: nothing is known of the clock there

  /// What is to be added beside NodeClock::shift_ns. Times that are later do not come out earlier.
  [[nodiscard]] int64_t correction_ns(int64_t time_ns) const {
    return rate == 0
               ? 0
               : static_cast<int64_t>(rate * static_cast<double>(std::clamp(time_ns - at_ns, -reach_ns, reach_ns)));
  }
  /// No correction_ns() is farther from 0.
  [[nodiscard]] int64_t most_ns() const {
    return static_cast<int64_t>((rate < 0 ? -rate : rate) * static_cast<double>(reach_ns)) + (rate == 0 ? 0 : 1);
  }
  bool operator==(const ClockDrift&) const = default;
};

/// What a node's distance from the common clock is known by.
enum class ClockSource : uint8_t {
  kUnknown,      // nothing bounds it, or no rank ran there
  kSameBoot,     // it has the clock of the reference
  kCollectives,  // collectives, Sends and Recvs bound it
  kEnds,         // these bound it, and the ends of collectives choose between the bounds
  kAnswers,      // what nodes answered when they were asked
  kKernel,       // how far their clocks may be off, as the kernels of both report (adjtimex(2))
};

constexpr std::string_view to_text(ClockSource source) {
  switch (source) {
    case ClockSource::kUnknown:
      return "";
    case ClockSource::kSameBoot:
      return "same boot";
    case ClockSource::kCollectives:
      return "collectives";
    case ClockSource::kEnds:
      return "ends";
    case ClockSource::kAnswers:
      return "answers";
    case ClockSource::kKernel:
      return "kernel";
  }
  return "";
}

struct NodeClock {
  NodeId node_id = 0;
  int64_t shift_ns = 0;             // to be added to a time of the node
  std::optional<int64_t> error_ns;  // how far off the result may be; none: nothing bounds it
  ClockDrift drift{};
  ClockSource source = ClockSource::kUnknown;
};

/// What was measured of a node's clock: its recorded times minus those of a clock that all measurements share.
struct MeasuredClock {
  NodeId node_id = 0;
  int64_t offset_ns = 0;
  int64_t error_ns = 0;  // the true value is within +- this, all through the recording
};

}  // namespace stalltrace
