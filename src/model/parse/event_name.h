// SPDX-License-Identifier: Apache-2.0
// Ids of calls as people write them.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/events.h"

namespace stalltrace {

/// "node2:1234", with the node's name or number, or the number in `event_id`.
Result<EventId> event_called(std::string_view text, const std::vector<Node>& nodes);

}  // namespace stalltrace
