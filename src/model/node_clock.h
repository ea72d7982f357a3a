// SPDX-License-Identifier: Apache-2.0
// How a node's times relate to the common clock of a report.
#pragma once

#include <cstdint>
#include <optional>

#include "model/events.h"

namespace stalltrace {

struct NodeClock {
  NodeId node_id = 0;
  int64_t shift_ns = 0;             // to be added to a time of the node
  std::optional<int64_t> error_ns;  // how far off the result may be; none: nothing bounds it
};

/// What was measured of a node's clock: its recorded times minus those of a clock that all measurements share.
struct MeasuredClock {
  NodeId node_id = 0;
  int64_t offset_ns = 0;
  int64_t error_ns = 0;  // the true value is within +- this, all through the recording
};

}  // namespace stalltrace
