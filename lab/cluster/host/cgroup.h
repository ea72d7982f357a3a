// SPDX-License-Identifier: Apache-2.0
// A control group made for processes of the lab, below the one they are in, in either version. Needs root.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/cluster/injection/undo.h"

namespace stalltrace::lab {

/// What a limit is called in each version: file and value.
struct CgroupLimit {
  std::vector<std::pair<std::string, std::string>> version1;
  std::vector<std::pair<std::string, std::string>> version2;
};

/// Makes a group `name` for `controller` ("cpu", "memory") with this limit and moves the processes there. The commands
/// are added as a person would type them, with the undoing: the processes go back, the group is removed. On error
/// nothing is left behind.
Status limit_processes(std::string_view controller, const std::string& name, const CgroupLimit& limit,
                       const std::vector<int>& pids, std::vector<std::string>& commands, std::vector<UndoAction>& undo);

}  // namespace stalltrace::lab
