// SPDX-License-Identifier: Apache-2.0
// How a process stands with its calls, at this moment.
#pragma once

#include <cstdint>

namespace stalltrace::capture {

/// Of the calls that move data. Times are UTC.
struct CallStanding {
  int32_t pid = 0;
  bool inside = false;           // the newest call has not ended, as far as is known
  bool waits_by_design = false;  // it is a Send or Recv: how long it takes says nothing
  int64_t entered_ns = 0;        // when the newest was entered
  int64_t ended_ns = 0;          // when one last ended; 0: none has
  int64_t usual_gap_ns = 0;      // between entries, smoothed
};

}  // namespace stalltrace::capture
