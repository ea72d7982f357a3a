// SPDX-License-Identifier: Apache-2.0
// A connection reset: a firewall that lost its state rejects packets of the job's connections, and informs the sender.
#include <array>

#include "lab/cluster/faults/drop.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"direction", "link", 0, 0, kInwards,
                   "link: what `peer` sends to this rank; ingress: all it receives"},
    kPeerParameter,
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  return apply_rule(spec, context, "", "reject with tcp reset");
}

}  // namespace

FaultRow connection_reset_row() {
  return {.cause = "connection_reset",
          .summary = "a firewall resets a rank's connections",
          .example = "connection_reset:rank=2,peer=1",
          .parameters = kParameters,
          .pulse = "",
          .apply = apply,
          .of_node = true};
}

}  // namespace stalltrace::lab
