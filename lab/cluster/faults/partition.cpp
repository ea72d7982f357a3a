// SPDX-License-Identifier: Apache-2.0
// A partition: no TCP packet gets through, as when a cable is pulled or a route is lost, and neither end is notified.
#include <array>

#include "lab/cluster/faults/drop.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {kDirectionParameter, kPeerParameter};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) { return apply_rule(spec, context, ""); }

}  // namespace

FaultRow partition_row() {
  return {.cause = "partition",
          .summary = "no packet gets through to a node, from it, or on one link",
          .example = "partition:rank=2,direction=both",
          .parameters = kParameters,
          .pulse = "",
          .apply = apply,
          .onset = Onset::kAny,
          .of_node = true};
}

}  // namespace stalltrace::lab
