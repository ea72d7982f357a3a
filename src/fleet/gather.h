// SPDX-License-Identifier: Apache-2.0
// Brings the recordings of many nodes here, as they are now.
#pragma once

#include <cstdint>
#include <span>
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

/// Asks all nodes at once, on the calling thread, and returns at the latest after `client.limit`. Never fails as a
/// whole: a node is in `failed` if its answers end in an error or in none, if it serves no recording or one that can't
/// be read, or if its recordings take more than what is left of `most_bytes` (of several nodes one may take a quarter).
/// Room is taken by what has arrived, and is free again where a node turns out to have failed.
/// The files belong to the caller, who removes them with the folder; those of a failed node are removed here.
Gathered gather_recordings(std::span<const NodeAddress> nodes, const GatherOptions& options);

}  // namespace stalltrace::fleet
