// SPDX-License-Identifier: Apache-2.0
// A control group for the lab's processes, below their current one, in either version. Needs root.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/cluster/host/undo.h"

namespace stalltrace::lab {

/// A limit's file and value in each version.
struct CgroupLimit {
  std::vector<std::pair<std::string, std::string>> version1;
  std::vector<std::pair<std::string, std::string>> version2;
};

/// Makes a group for `controller` ("cpu", "memory") with this limit and moves the processes there; `number` makes its
/// name unique. Adds the equivalent shell commands and the undo actions: the processes move back, the
/// group is removed. On error nothing is left behind.
Status limit_processes(std::string_view controller, int number, const CgroupLimit& limit, const std::vector<int>& pids,
                       std::vector<std::string>& commands, std::vector<UndoAction>& undo);

/// Removes the groups that killed runs left, in every hierarchy, and returns their paths. The kernel keeps a group for
/// as long as it has processes, so they are to be ended before; waits up to 1 s for each group.
std::vector<std::string> remove_cgroups();

}  // namespace stalltrace::lab
