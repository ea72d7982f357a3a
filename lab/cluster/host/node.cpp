// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/host/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace stalltrace::lab {

VirtualNode make_node(int rank, const std::string& parent_folder, int ranks_per_node) {
  VirtualNode node;
  node.rank = rank;
  node.number = rank / ranks_per_node;
  node.local_rank = rank % ranks_per_node;
  node.local_ranks = ranks_per_node;
  node.name = fmt::format("node{}", node.number);
  node.netns = "stalltrace-" + node.name;
  node.netns_path = "/run/netns/" + node.netns;
  node.address = fmt::format("10.77.0.{}", node.number + 1);
  node.address6 = fmt::format("fd77::{:x}", node.number + 1);
  node.folder = parent_folder + "/" + node.name;
  const std::string own = ranks_per_node > 1 ? fmt::format("rank{}_", rank) : "";
  node.slow_file = fmt::format("{}/{}slow_ms", node.folder, own);
  node.bug_prefix = fmt::format("{}/{}bug_", node.folder, own);
  return node;
}

std::vector<VirtualNode> one_per_node(std::span<const VirtualNode> by_rank) {
  std::vector<VirtualNode> nodes;
  std::ranges::copy_if(by_rank, std::back_inserter(nodes),
                       [](const VirtualNode& node) { return node.local_rank == 0; });
  return nodes;
}

}  // namespace stalltrace::lab
