// SPDX-License-Identifier: Apache-2.0
// A process's progress through its calls at this moment.
#pragma once

#include <cstdint>

namespace stalltrace::capture {

/// Covers the calls that move data. Times are UTC.
struct CallStanding {
  int32_t pid = 0;
  int32_t tid = 0;               // the thread that made the newest call
  bool inside = false;           // the newest call has not ended, as far as is known
  bool launched = false;         // the newest call has returned, whether or not its transfer has ended
  bool waits_by_design = false;  // it is a Send or Recv: its duration says nothing
  uint64_t communicator = 0;     // of the newest call: its hash; 0: not known
  int64_t seq = 0;               // its number there
  int64_t entered_ns = 0;        // entry of the newest call
  int64_t ended_ns = 0;          // end of the last call that ended; 0: none
  int64_t usual_gap_ns = 0;      // between entries, smoothed
};

}  // namespace stalltrace::capture
