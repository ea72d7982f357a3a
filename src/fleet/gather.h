// SPDX-License-Identifier: Apache-2.0
// Brings the recordings of many nodes here, as they are now.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fleet/client.h"
#include "fleet/query.h"

namespace stalltrace::fleet {

struct GatherOptions {
  ClientOptions client;
  std::string folder;                      // of our own: the recordings' files are made there
  int64_t most_bytes = int64_t{64} << 30;  // of all recordings, uncompressed
};

struct Gathered {
  std::vector<std::string> files;  // in the order of the nodes
  std::vector<FailedNode> failed;  // of which nothing is kept
  int64_t moved_bytes = 0;         // over the network, compressed
};

Gathered gather_recordings(std::span<const NodeAddress> nodes, const GatherOptions& options);

}  // namespace stalltrace::fleet
