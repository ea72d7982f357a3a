// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/host/node.h"

#include <fmt/format.h>

namespace stalltrace::lab {

VirtualNode make_node(int rank, const std::string& parent_folder) {
  VirtualNode node;
  node.rank = rank;
  node.name = fmt::format("node{}", rank);
  node.netns = "stalltrace-" + node.name;
  node.netns_path = "/run/netns/" + node.netns;
  node.address = fmt::format("10.77.0.{}", rank + 1);
  node.address6 = fmt::format("fd77::{:x}", rank + 1);
  node.folder = parent_folder + "/" + node.name;
  node.slow_file = node.folder + "/slow_ms";
  node.bug_prefix = node.folder + "/bug_";
  return node;
}

}  // namespace stalltrace::lab
