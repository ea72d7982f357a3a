// SPDX-License-Identifier: Apache-2.0
// A disturbance that no cause describes: all ranks wait alike for the input of each step, as for a file server that all
// of them read from. No rank is late, so that none is to blame.
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/file.h"
#include "base/process/command.h"
#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"ms", "80", 1, 60'000, {}, "that every rank waits for the input of each step"},
};

std::string input_file(const VirtualNode& node) { return node.bug_prefix + "input"; }

/// Storing a file takes as long as a step: all are stored first and then renamed at once, since a rank that gets
/// its own one step before the others is late.
Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const std::string content(spec.choice("ms"));
  AppliedFault applied;
  for (const VirtualNode& node : context.nodes) {
    const std::string path = input_file(node);
    if (Status stored = write_file(path + ".new", content + "\n"); !stored) {
      (void)undo_all(applied.undo);
      return std::unexpected(std::move(stored.error()));
    }
    applied.undo.push_back({UndoKind::kRemoveFile, {path + ".new"}});
    applied.commands.push_back("echo " + content + " > " + format_command({path}));
  }
  std::vector<UndoAction> stored = std::exchange(applied.undo, {});
  for (const VirtualNode& node : context.nodes) {
    const std::string path = input_file(node);
    if (std::rename((path + ".new").c_str(), path.c_str()) != 0) {
      const int error_number = errno;
      (void)undo_all(applied.undo);
      (void)undo_all(stored);
      return fail_errno("rename " + path + ".new", error_number);
    }
    applied.undo.push_back({UndoKind::kRemoveFile, {path}});
  }
  return applied;
}

}  // namespace

FaultRow slow_input_row() {
  return {.cause = "slow_input",
          .summary = "all ranks wait alike for the input of each step: no cause of findings, and no rank, is to blame",
          .example = "slow_input:ms=80",
          .parameters = kParameters,
          .pulse = "",
          .apply = apply,
          .of_job = true,
          .catalogued = false};
}

}  // namespace stalltrace::lab
