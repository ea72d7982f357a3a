// SPDX-License-Identifier: Apache-2.0
// An MTU black hole: IP packets above a length vanish without a word, smaller ones pass.
#include <array>

#include "lab/cluster/faults/drop.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"bytes", "1400", 600, 65000, {}, "longest IP packet that passes"},
    kDirectionParameter,
    kPeerParameter,
};

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  return apply_rule(spec, context, "meta length > " + std::string(spec.choice("bytes")));
}

}  // namespace

FaultRow mtu_blackhole_row() {
  return {"mtu_blackhole",
          "large packets vanish at a node or on one link",
          "mtu_blackhole:rank=2,bytes=1400",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
