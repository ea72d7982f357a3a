// SPDX-License-Identifier: Apache-2.0
// Which part of the collectives of many recordings is read where all of them are too many: a service records for days.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "model/time_range.h"
#include "model/time_window.h"

namespace stalltrace::fleet {

/// What a server reports of a recording: the number of its collectives, and the time over which they are spread.
struct RecordedCalls {
  TimeRange range;  // both ends known, from 1970 to kFarFutureNs
  int64_t calls = 0;
};

/// None if there are at most `most`. Otherwise the window with as much time around it as `most` allows, for the usual
/// durations; without a window the last part. If the window alone has more, the window. Errors (kUsage): the window
/// counts from the beginning of the recordings, which is not read then.
Result<std::optional<TimeRange>> part_to_read(std::span<const RecordedCalls> recordings, const TimeWindow& window,
                                              int64_t most);

}  // namespace stalltrace::fleet
