// SPDX-License-Identifier: Apache-2.0
// The virtual node of a rank: the node's names and addresses, and the files of the rank alone. Ranks are numbered node
// by node. Plain values, no I/O.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace stalltrace::lab {

inline constexpr int kMaximumRanks = 64;

struct VirtualNode {
  int rank = 0;            // of the job
  int number = 0;          // of the node
  int local_rank = 0;      // among the ranks of the node
  int local_ranks = 1;     // that the node has
  std::string name;        // "node2"
  std::string netns;       // "stalltrace-node2"
  std::string netns_path;  // "/run/netns/stalltrace-node2"
  std::string address;     // "10.77.0.3"
  std::string address6;    // "fd77::3"
  std::string folder;      // its own folder in place of a file system: bin/, lib/, slow_ms
  std::string slow_file;   // file with the milliseconds that the rank's workload adds to each step
  std::string bug_prefix;  // prefix of files that switch on bugs of the rank's workload
  std::vector<int> pids;   // the rank's processes
};

/// The root for port counters that the node's agent uses instead of /sys.
inline std::string sysfs_of(const VirtualNode& node) { return node.folder + "/sys"; }

/// The node of `rank`, its folder under `parent_folder`.
VirtualNode make_node(int rank, const std::string& parent_folder, int ranks_per_node = 1);

/// One for each node, that of its first rank, of nodes by rank.
std::vector<VirtualNode> one_per_node(std::span<const VirtualNode> by_rank);

}  // namespace stalltrace::lab
