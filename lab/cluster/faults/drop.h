// SPDX-License-Identifier: Apache-2.0
// Shared by several network faults: an nftables rule for a node's TCP packets, incoming, outgoing, or incoming from one
// peer only.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {

inline constexpr std::array<std::string_view, 4> kDirections = {"ingress", "egress", "both", "link"};
inline constexpr std::array<std::string_view, 2> kInwards = {"ingress", "link"};
inline constexpr FaultParameter kDirectionParameter{
    "direction", "ingress", 0, 0, kDirections, "of the node, or both; link: from `peer` to this rank only"};
inline constexpr FaultParameter kPeerParameter{
    "peer", "", 0, kMaximumRanks - 1, {}, "sending rank, for direction=link; default: the rank before"};

/// `match` narrows TCP packets further ("meta length > 1400"), may be empty; `verdict` is "drop" or "reject with ...".
Result<AppliedFault> apply_rule(const FaultSpec& spec, const FaultContext& context, const std::string& match,
                                const std::string& verdict = "drop");

}  // namespace stalltrace::lab
