// SPDX-License-Identifier: Apache-2.0
// The events of a recording: one struct per table, with the names of the columns (docs/recording.md). Plain values, no
// I/O. Times are UTC nanoseconds, durations nanoseconds, sizes bytes.
#pragma once

#include "model/event_types.h"

namespace stalltrace {

/// Receives the events of capture. Implementations define which thread may call.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void accept(Event event) = 0;
};

}  // namespace stalltrace
