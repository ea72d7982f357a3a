// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/open_calls.h"

namespace stalltrace::analysis {

std::optional<int64_t> oldest_open(const CallSequence& sequence) {
  std::optional<int64_t> oldest;
  if (sequence.destroyed || sequence.continued) {
    return oldest;
  }
  if (sequence.ends_unseen()) {
    return sequence.held_in_newest ? std::optional(sequence.end_number() - 1) : oldest;
  }
  for (auto call = sequence.calls.rbegin(); call != sequence.calls.rend(); ++call) {
    if (!call->present || call->end_ns() != kForever) {
      break;
    }
    if (!call->is_open()) {
      continue;
    }
    oldest = sequence.end_number() - 1 - (call - sequence.calls.rbegin());
  }
  return oldest;
}

}  // namespace stalltrace::analysis
