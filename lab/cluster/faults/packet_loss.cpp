// SPDX-License-Identifier: Apache-2.0
// Packet loss: TCP packets are dropped at random. A dropped packet may be a batch of segments that the virtual link has
// not split yet: the counter counts packets as the hook sees them.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "lab/cluster/faults/drop.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"percent", "2", 0.01, 100, {}, "of the TCP packets are dropped"},
    kDirectionParameter,
    kPeerParameter,
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  return apply_rule(spec, context,
                    fmt::format("numgen random mod 10000 < {}", std::lround(spec.number("percent") * 100)));
}

}  // namespace

FaultRow packet_loss_row() {
  return {.cause = "packet_loss",
          .summary = "TCP packets are lost at a node or on one link",
          .example = "packet_loss:rank=2,percent=2,direction=ingress",
          .parameters = kParameters,
          .pulse = "",
          .apply = apply,
          .onset = Onset::kAny,
          .of_node = true};
}

}  // namespace stalltrace::lab
