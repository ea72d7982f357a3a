// SPDX-License-Identifier: Apache-2.0
// The kernel's reasons to drop a packet (enum skb_drop_reason) that are recorded: those that point to a fault of the
// host or to one of its rules. TCP drops duplicates and old segments in normal operation. Pure data.
#pragma once

#include <string_view>

namespace stalltrace::capture {

inline constexpr std::string_view kDropReasonPrefix = "SKB_DROP_REASON_";

/// `reason`: the kernel's name without its prefix.
bool is_recorded_drop_reason(std::string_view reason);

}  // namespace stalltrace::capture
