// SPDX-License-Identifier: Apache-2.0
// Which of the kernel's reasons to drop a packet (enum skb_drop_reason) are recorded: those that point to a fault of
// the host or of a rule on it. TCP's own reasons for duplicates and old segments are its ordinary work. Pure data.
#pragma once

#include <string_view>

namespace stalltrace::capture {

inline constexpr std::string_view kDropReasonPrefix = "SKB_DROP_REASON_";

/// `reason` without the prefix.
bool is_recorded_drop_reason(std::string_view reason);

}  // namespace stalltrace::capture
