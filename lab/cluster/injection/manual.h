// SPDX-License-Identifier: Apache-2.0
// Manual control of the practice cluster: `lab up`, `lab fault`, `lab down`. A small JSON file under
// /run/stalltrace-lab holds the state for the next call, from another process. Needs root. Any thread, one at a time.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/cluster/injection/fault_spec.h"

namespace stalltrace::lab {

struct ClusterOptions {
  int ranks = 4;
};

/// A virtual node's description for the user.
struct NodeAddress {
  std::string name;     // "node0"
  std::string netns;    // "stalltrace-node0"
  std::string address;  // "10.77.0.1"
  std::string folder;   // holds bin/ and lib/ with the workload
};

/// Makes the network and the nodes' folders; starts nothing in them.
Result<std::vector<NodeAddress>> up(const ClusterOptions& options);

/// Applies a fault now, until clear_faults or down. `start`, `duration` and `every` belong to `lab run` and are
/// refused; cpu_contention and process_stopped affect every process that runs on the node now. Returns the equivalent
/// commands.
Result<std::vector<std::string>> apply_fault(const FaultSpec& spec);

/// Undoes every fault applied by hand.
Status clear_faults();

/// Removes everything that any lab left on this machine, by name: faults, processes in its namespaces, the namespaces,
/// its files under /run. Returns one line for each removal; empty if there was nothing. Refuses while a `lab run` is
/// alive.
Result<std::vector<std::string>> down();

}  // namespace stalltrace::lab
