// SPDX-License-Identifier: Apache-2.0
// What a node's server says of itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/client.h"
#include "fleet/query.h"

namespace stalltrace::fleet {

struct RecordingInfo {
  std::string name;
  std::vector<std::string> nodes;  // their names
  bool being_written = false;
  int64_t size_bytes = 0;
  std::optional<int64_t> from_ns;
  std::optional<int64_t> to_ns;
  int64_t collectives = 0;
  int64_t lost_events = 0;
  std::string problem;  // empty: it can be read
};

struct NodeInfo {
  std::string version;
  std::vector<RecordingInfo> recordings;
};

/// The answer to GET /v1/node, which is untrusted. An error if it is of another version of the API, or of another form.
Result<NodeInfo> parse_node_info(std::string_view text);

/// Its clock minus ours. The true value is within +- error, if neither clock was set in between.
struct ClockOffset {
  int64_t offset_ns = 0;
  int64_t error_ns = 0;
};

struct NodeAnswer {
  std::string node;  // as it was asked
  NodeInfo info;
  ClockOffset clock;
};

struct NodesAnswer {
  std::vector<NodeAnswer> answered;
  std::vector<FailedNode> failed;
};

/// Asks all: what they serve, and several times for their clocks, of which the quickest answer counts.
NodesAnswer ask_nodes(std::span<const NodeAddress> nodes, const ClientOptions& options);

}  // namespace stalltrace::fleet
