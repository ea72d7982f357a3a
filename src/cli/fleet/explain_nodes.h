// SPDX-License-Identifier: Apache-2.0
// `explain --nodes`: the finding that the recordings of all nodes in one folder would give.
#pragma once

#include <string_view>

#include "cli/evidence/inputs.h"
#include "cli/fleet/node_flags.h"
#include "cli/reporting.h"

namespace stalltrace::cli {

/// Gives up all rights but to connect, asks the nodes and explains what they have. Says on standard error which nodes
/// are missing, and what was moved. `event`: as inspect_inputs() takes it. `like`: recordings here of a run that was
/// right; null: none.
Result<InspectedReport> explain_nodes(Console& console, const NodeFlags& nodes, std::string_view event,
                                      const TimeWindow& window, const Inputs* like);

}  // namespace stalltrace::cli
