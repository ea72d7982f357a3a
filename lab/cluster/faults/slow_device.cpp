// SPDX-License-Identifier: Apache-2.0
// A slow device: the rank's device computes longer in each step, before the collectives that the CPU has launched in
// time.
#include <array>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"ms", "80", 1, 60'000, {}, "more of computing by the device in each step"},
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  return apply_bug(context.node(), "device", spec.choice("ms"));
}

}  // namespace

FaultRow slow_device_row() {
  return {"slow_device",
          "a rank's device is late for each step's collectives, while its CPU calls in time; only --plugin shows it",
          "slow_device:rank=2,ms=80",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
