// SPDX-License-Identifier: Apache-2.0
// What evidence lacks that others made: keys in Node::missing_evidence beside those of the EvidenceKinds.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/text.h"
#include "model/events/job.h"

namespace stalltrace {

/// How long calls took is not known, or not to the millisecond: only their order can be judged.
inline constexpr std::string_view kLacksDurations = "call_durations";
/// Lines have no time: `timestamp_ns` numbers them, in the order of each file.
inline constexpr std::string_view kLacksTimes = "clock_times";
/// Processes have no numbers: `pid` only separates those of one recording.
inline constexpr std::string_view kLacksPids = "pids";

/// There are no calls: the node is a kernel's log, or a benchmark's output.
inline constexpr std::string_view kLacksCalls = "calls";

/// Times have no offset from UTC and were taken for UTC: they may be off by the host's offset.
inline constexpr std::string_view kLacksTimeZone = "time_zone";

inline bool lacks(const Node& node, std::string_view key) {
  return std::ranges::count(split(node.missing_evidence, ' '), key) > 0;
}

}  // namespace stalltrace
