// SPDX-License-Identifier: Apache-2.0
// Remains of a killed run: its namespaces, its control groups, and the folders listed in a note under /run. The next
// lab removes them, or `lab down`.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/cluster/host/node.h"

namespace stalltrace::lab {

class LeftoverNote {
 public:
  /// Needs the lab's lock. `serves`: the files of servers (agent_servers.h) in `out_dir` are noted, too.
  static Result<LeftoverNote> make(std::span<const VirtualNode> nodes, const std::string& out_dir, bool serves);

  LeftoverNote(LeftoverNote&& other) noexcept : owned_(std::exchange(other.owned_, false)) {}
  LeftoverNote& operator=(LeftoverNote&&) = delete;
  ~LeftoverNote();

 private:
  LeftoverNote() = default;
  bool owned_ = true;
};

/// Removes namespaces, control groups, node folders and the lab's other files under /run, and returns their names.
/// Needs the lab's lock.
Result<std::vector<std::string>> remove_everything();

/// The same, unless a cluster made by hand is up; then nothing. The lock's holder knows that no run is active.
Result<std::vector<std::string>> clear_killed_run();

}  // namespace stalltrace::lab
