// SPDX-License-Identifier: Apache-2.0
// A note under /run of the folders that a run will remove: `lab down` finds it when the run was killed before it could.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/cluster/node.h"

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

/// Removes the node folders that a killed run noted, and returns their paths.
std::vector<std::string> remove_leftover_folders();

}  // namespace stalltrace::lab
