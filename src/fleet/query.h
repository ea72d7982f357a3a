// SPDX-License-Identifier: Apache-2.0
// One statement on the recordings of many nodes, as one table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/client.h"
#include "model/table_rows.h"

namespace stalltrace::fleet {

/// A node that is not in the answer, and why.
struct FailedNode {
  std::string node;  // as it was asked
  Error error;
};

/// A recording that two nodes serve, or one node under two addresses: by the runs of the agent that are in it.
struct CopiedRecording {
  std::string node;
  std::string recording;
  std::string first;  // the node whose rows are delivered
};

struct FleetAnswer {
  size_t answered = 0;
  std::vector<CopiedRecording> copies;
  std::vector<FailedNode> failed;
  std::vector<std::string> cut;  // nodes that gave the first rows only
};

/// Delivers the rows of all nodes, in the order of `nodes`, with a first column `node`: the name that the recording
/// gives its node, else the address. A node of which not all can be read, or whose columns are not those of
/// most that answered, counts as failed and has no rows. Rows of a recording that an earlier node has are left out.
/// Reading the answers may take as long as asking for them. Errors are those of `sink`.
Result<FleetAnswer> query_nodes(std::span<const NodeAddress> nodes, std::string_view sql, const ClientOptions& options,
                                RowSink& sink);

}  // namespace stalltrace::fleet
