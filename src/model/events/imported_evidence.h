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

inline bool lacks(const Node& node, std::string_view key) {
  return std::ranges::count(split(node.missing_evidence, ' '), key) > 0;
}

}  // namespace stalltrace
