// SPDX-License-Identifier: Apache-2.0
// A stopped process: SIGSTOP, and SIGCONT when the pulse is over.
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"ms", "1000", 1, 600'000, {}, "until the process goes on"},
};

Result<AppliedFault> apply(const FaultSpec&, const FaultContext& context) {
  AppliedFault applied;
  for (const int pid : context.node().pids) {
    UndoAction go_on = undo_for_process(UndoKind::kContinue, pid);
    if (::kill(pid, SIGSTOP) != 0) {
      const int error_number = errno;
      (void)undo_all(applied.undo);
      return fail_errno(fmt::format("stop process {} of {}", pid, context.node().name), error_number);
    }
    applied.commands.push_back(fmt::format("kill -STOP {}", pid));
    applied.undo.push_back(std::move(go_on));
  }
  if (applied.undo.empty()) {
    return fail("no process runs on " + context.node().name, "start one there first");
  }
  return applied;
}

}  // namespace

FaultRow process_stopped_row() {
  return {"process_stopped",
          "a rank's process is stopped and later continued",
          "process_stopped:rank=3,ms=1000,every=3s",
          kParameters,
          "ms",
          apply};
}

}  // namespace stalltrace::lab
