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

}  // namespace stalltrace
