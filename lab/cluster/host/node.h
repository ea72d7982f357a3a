// SPDX-License-Identifier: Apache-2.0
// A virtual node: the names and addresses that belong to rank k. Plain values, no I/O.
#pragma once

#include <string>
#include <vector>

namespace stalltrace::lab {

inline constexpr int kMaximumRanks = 64;

struct VirtualNode {
  int rank = 0;
  std::string name;        // "node2"
  std::string netns;       // "stalltrace-node2"
  std::string netns_path;  // "/run/netns/stalltrace-node2"
  std::string address;     // "10.77.0.3"
  std::string address6;    // "fd77::3"
  std::string folder;      // its own file system: bin/, lib/, slow_ms
  std::string slow_file;   // the workload adds the milliseconds it holds to each step
  std::string bug_prefix;  // files that begin so switch on mistakes of the workload
  std::vector<int> pids;   // of the job's processes on this node
};

/// The root that the node's agent reads port counters below, instead of /sys.
inline std::string sysfs_of(const VirtualNode& node) { return node.folder + "/sys"; }

/// Node `rank`, its folder under `parent_folder`.
VirtualNode make_node(int rank, const std::string& parent_folder);

}  // namespace stalltrace::lab
