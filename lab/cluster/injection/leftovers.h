// SPDX-License-Identifier: Apache-2.0
// What a killed run leaves: its namespaces, and the folders that a note under /run lists. The next lab clears it, or
// `lab down`.
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
  /// Needs the lab's lock.
  static Result<LeftoverNote> make(std::span<const VirtualNode> nodes);

  LeftoverNote(LeftoverNote&& other) noexcept : owned_(std::exchange(other.owned_, false)) {}
  LeftoverNote& operator=(LeftoverNote&&) = delete;
  ~LeftoverNote();

 private:
  LeftoverNote() = default;
  bool owned_ = true;
};

/// Removes namespaces, node folders and whatever else a lab keeps under /run, and returns their names. Needs the lab's
/// lock.
Result<std::vector<std::string>> remove_everything();

/// The same if it is nobody's: no cluster made by hand is up (who holds the lock knows that no run is). Else nothing.
Result<std::vector<std::string>> clear_killed_run();

}  // namespace stalltrace::lab
