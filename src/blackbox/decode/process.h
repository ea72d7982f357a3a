// SPDX-License-Identifier: Apache-2.0
// Header of a profiler file → the process's row, its heartbeat, and the intervals in which it did not run. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/process/procfs.h"
#include "blackbox/decode/values.h"
#include "model/events.h"

namespace stalltrace::blackbox {

Process decode_process(const st_box_header& header, const Owner& owner,
                       CommandLines commands = CommandLines::kRedacted);

/// The newest heartbeat (CLOCK_MONOTONIC, ns); 0 where there is none, or where it lies before the process's start or
/// after `now_ns`.
uint64_t last_heartbeat(const st_box_header& header, uint64_t now_ns);

/// Intervals in which the process did not run although its heartbeat was due, ordered by start: stopped, or runnable
/// without a CPU. The last is open if the process has a writer and does not run now. `now_ns`: CLOCK_MONOTONIC.
std::vector<WaitSpan> decode_pauses(const st_box_header& header, bool has_writer, const Owner& owner, uint64_t now_ns);

}  // namespace stalltrace::blackbox
