// SPDX-License-Identifier: Apache-2.0
// A slow receiver: the rank's copies to its device take longer, so that it reads received data more slowly than the
// network delivers.
#include <array>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"mbytes", "4", 1, 100'000, {}, "per second that its copies to the device reach"},
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  return apply_bug(context.node(), "copy", spec.choice("mbytes"));
}

}  // namespace

FaultRow slow_receiver_row() {
  return {"slow_receiver",
          "a rank reads what it receives too slowly",
          "slow_receiver:rank=2,mbytes=4",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
