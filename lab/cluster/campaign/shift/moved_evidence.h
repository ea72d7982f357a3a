// SPDX-License-Identifier: Apache-2.0
// A recording whose evidence is at another time than its calls: what an analysis still explains by it is explained
// falsely.
#pragma once

#include "model/source.h"

namespace stalltrace::lab {

/// Moves all rows with a time but collectives, and but readings of clocks, which would then say that a clock was set.
/// States keep their times: what connections, processes and communicators there are is no evidence of a stall. The
/// other source must outlive the object.
class MovedEvidence final : public EventSource {
 public:
  /// Evidence of a moment t is at t + by_ns; before the start of the recording plus that there is none.
  MovedEvidence(EventSource& source, int64_t by_ns) : source_(source), by_ns_(by_ns) {}

  Status read_state(AnyRows rows) override;
  Status read_stream(TimeRange range, AnyVisitor visitor) override;

 private:
  EventSource& source_;
  int64_t by_ns_;
};

}  // namespace stalltrace::lab
