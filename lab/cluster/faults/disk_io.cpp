// SPDX-License-Identifier: Apache-2.0
// Waiting for disk: the workload of one rank writes a checkpoint in each step and waits until it is on disk.
#include <array>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"mbytes", "32", 1, 4096, {}, "written and flushed before each step's collectives"},
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  return apply_bug(context.node(), "disk", spec.choice("mbytes"));
}

}  // namespace

FaultRow disk_io_row() {
  return {"disk_io",
          "a rank waits for its disk before each step's collectives",
          "disk_io:rank=1,mbytes=32",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
