// SPDX-License-Identifier: Apache-2.0
// A missing collective: the workload of one rank stays away from a step's collectives, alive, as a training script
// does whose input ran dry or whose branch depends on the rank.
#include <array>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array<std::string_view, 3> kDoing = {"input", "compute", "recv"};
constexpr std::array kParameters = {
    FaultParameter{"doing", "input", 0, 0, kDoing, "instead: wait for input, compute, receive what nobody sends"},
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  return apply_bug(context.node(), "skip", spec.choice("doing"));
}

}  // namespace

FaultRow missing_collective_row() {
  return {"missing_collective",
          "a rank stays away from the others' collectives, alive",
          "missing_collective:rank=0,doing=input",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
