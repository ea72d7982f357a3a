// SPDX-License-Identifier: Apache-2.0
// The practice cluster by hand: `lab up`, `lab fault`, `lab down`. What is up is noted in a small JSON file under
// /run/stalltrace-lab, so that the next call, from another process, can go on. Needs root. Any thread, one at a time.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/cluster/injection/fault_spec.h"

namespace stalltrace::lab {

struct ClusterOptions {
  int ranks = 4;
};

/// A virtual node as a person needs it.
struct NodePlace {
  std::string name;     // "node0"
  std::string netns;    // "stalltrace-node0"
  std::string address;  // "10.77.0.1"
  std::string folder;   // holds bin/ and lib/ with the workload
};

/// Makes the network and the nodes' folders; runs nothing in them.
Result<std::vector<NodePlace>> up(const ClusterOptions& options);

/// Applies a fault now, until clear_faults or down. `start`, `duration` and `every` belong to `lab run` and are
/// refused; cpu_contention and process_stopped hit every process of the node that runs at this moment. Returns the
/// commands it amounts to.
Result<std::vector<std::string>> apply_fault(const FaultSpec& spec);

/// Undoes every fault applied by hand.
Status clear_faults();

/// Removes everything any lab left on this machine, by name: faults, processes in its namespaces, the namespaces,
/// its files under /run. Returns what was removed, one line each; empty when there was nothing.
/// Refuses while a `lab run` is alive.
Result<std::vector<std::string>> down();

}  // namespace stalltrace::lab
