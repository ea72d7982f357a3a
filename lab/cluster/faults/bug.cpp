// SPDX-License-Identifier: Apache-2.0
// Faults that are bugs of the workload itself, selected by a file that it reads.
#include "base/file.h"
#include "base/process/command.h"
#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {

Result<AppliedFault> apply_bug(const VirtualNode& node, std::string_view name, std::string_view kind) {
  const std::string path = node.bug_prefix + std::string(name);
  const std::string content(kind);
  ST_TRY(write_file(path, content + "\n"));
  AppliedFault applied;
  applied.commands.push_back("echo " + content + " > " + format_command({path}));
  applied.undo.push_back({UndoKind::kRemoveFile, {path}});
  return applied;
}

}  // namespace stalltrace::lab
