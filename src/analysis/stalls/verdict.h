// SPDX-License-Identifier: Apache-2.0
// What the stall search decided about one part of one instance, and why.
#pragma once

#include <cstdint>

#include "analysis/intervals.h"
#include "model/inspection.h"

namespace stalltrace::analysis {

/// The parts of an instance that are judged one by one.
enum class StallPart : uint8_t {
  kLate,      // the others waited for the last rank
  kTransfer,  // all had arrived
  kAbsent,    // a recorded rank never came
};

/// `value_ns` was compared with `limit_ns`: more is a stall, unless `reason` says otherwise. Both in nanoseconds.
struct Verdict {
  StallPart part = StallPart::kTransfer;
  VerdictReason reason = VerdictReason::kBelowLimit;
  int64_t value_ns = 0;
  int64_t limit_ns = 0;
  Interval window{0, 0};  // of the part, on the common clock
};

}  // namespace stalltrace::analysis
