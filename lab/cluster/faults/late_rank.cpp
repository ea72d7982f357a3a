// SPDX-License-Identifier: Apache-2.0
// A late rank: the workload itself computes longer in each step, by the milliseconds in a file that it reads.
#include <array>

#include "base/file.h"
#include "base/process/command.h"
#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"ms", "80", 1, 60'000, {}, "more of computing in each step"},
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const std::string& path = context.node().slow_file;
  const std::string content(spec.choice("ms"));
  ST_TRY(write_file(path, content + "\n"));
  AppliedFault applied;
  applied.commands.push_back("echo " + content + " > " + format_command({path}));
  applied.undo.push_back({UndoKind::kRemoveFile, {path}});
  return applied;
}

}  // namespace

FaultRow late_rank_row() {
  return {"late_rank",
          "a rank computes longer before it enters each step's collectives",
          "late_rank:rank=1,ms=80",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
