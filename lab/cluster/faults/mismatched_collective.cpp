// SPDX-License-Identifier: Apache-2.0
// A mismatched collective: the workload of one rank calls a step's collectives with another count, datatype, operation
// or root than the others.
#include <array>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array<std::string_view, 5> kWhat = {"count", "datatype", "op", "root", "extra"};
constexpr std::array kParameters = {
    FaultParameter{"what", "count", 0, 0, kWhat,
                   "differs; root: of a Broadcast, for a job run with `-- --mix 1`; extra: torch, one more AllReduce"},
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const std::string_view what = spec.choice("what");
  return apply_bug(context.node(), what == "extra" ? "extra" : "mismatch", what);
}

}  // namespace

FaultRow mismatched_collective_row() {
  return {"mismatched_collective",
          "a rank calls a collective with other arguments than the others",
          "mismatched_collective:rank=1,what=count",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
