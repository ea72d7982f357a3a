// SPDX-License-Identifier: Apache-2.0
// Undo actions as data: a run executes them itself; `lab fault none` reads them from a file of an earlier process.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::lab {

enum class UndoKind {
  kCommand,     // arguments: an argument vector
  kRemoveFile,  // path
  kKill,        // pid, start time: SIGKILL, reaped if it is a child of ours
  kContinue,    // pid, start time: SIGCONT
  kAffinity,    // tid, start time, CPU numbers...
};

struct UndoAction {
  UndoKind kind = UndoKind::kCommand;
  std::vector<std::string> arguments;
};

/// "command", "remove_file", ...
std::string_view to_text(UndoKind kind);
std::optional<UndoKind> undo_kind_from_text(std::string_view text);

/// An action on a process by pid, with its start time, so that a reused pid is left alone.
UndoAction undo_for_process(UndoKind kind, int pid);

/// Executes all actions, last first, and continues after a failure; returns the first error. A process or file that no
/// longer exists is not a failure.
Status undo_all(std::span<const UndoAction> actions);

}  // namespace stalltrace::lab
