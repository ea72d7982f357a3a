// SPDX-License-Identifier: Apache-2.0
// The stall search's decision about one part of one instance, and its reason.
#pragma once

#include <cstdint>

#include "analysis/intervals.h"
#include "model/inspection.h"

namespace stalltrace::analysis {

/// The parts of an instance, each judged by itself.
enum class StallPart : uint8_t {
  kLate,      // the others waited for the last rank
  kTransfer,  // all ranks had arrived
  kAbsent,    // a recorded rank never came
};

/// `value_ns` was compared with `limit_ns`: a greater value is a stall, unless `reason` says otherwise. Both in ns.
struct Verdict {
  StallPart part = StallPart::kTransfer;
  VerdictReason reason = VerdictReason::kBelowLimit;
  int64_t value_ns = 0;
  int64_t limit_ns = 0;
  Interval window{0, 0};  // of the part, on the common clock
};

}  // namespace stalltrace::analysis
