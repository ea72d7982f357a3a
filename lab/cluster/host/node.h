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
  std::string folder;      // its own folder in place of a file system: bin/, lib/, slow_ms
  std::string slow_file;   // file with the milliseconds that the workload adds to each step
  std::string bug_prefix;  // prefix of files that switch on bugs of the workload
  std::vector<int> pids;   // the job's processes on this node
};

/// The root for port counters that the node's agent uses instead of /sys.
inline std::string sysfs_of(const VirtualNode& node) { return node.folder + "/sys"; }

/// Node `rank`, its folder under `parent_folder`.
VirtualNode make_node(int rank, const std::string& parent_folder);

}  // namespace stalltrace::lab
