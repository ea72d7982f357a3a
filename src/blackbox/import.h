// SPDX-License-Identifier: Apache-2.0
// Profiler files → events: a recording of what the profiler plugin alone has seen. No privilege, no kernel, no agent;
// the processes may live, hang or be dead.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "model/events.h"

namespace stalltrace {

struct RingSummary {
  size_t processes = 0;
  size_t nodes = 0;
  size_t living = 0;  // whose process still lives on this host
  uint64_t collectives = 0;
  uint64_t open = 0;
};

/// Reads every box once and delivers its rows. A box that is given twice is read once. A box that cannot be read is
/// told to `note`, with the reason, and left out; that none can be read is an error.
Result<RingSummary> import_rings(std::span<const std::string> paths, EventSink& sink,
                                 const std::function<void(const Error&)>& note);

}  // namespace stalltrace
