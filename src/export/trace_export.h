// SPDX-License-Identifier: Apache-2.0
// A recording and its findings as a trace for a timeline viewer: which tracks there are and what is on them
// (docs/export.md). Pure: the encoder gets everything, and its sink writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "base/result.h"
#include "export/encode/trace_encoder.h"
#include "export/tracks/track_writer.h"
#include "model/finding.h"
#include "model/node_clock.h"
#include "model/source.h"

namespace stalltrace::trace_export {

struct TraceOptions {
  TimeRange range;             // on the common clock: what overlaps it
  std::vector<int32_t> ranks;  // of the job; empty: all
  bool findings_only = false;  // only what overlaps the windows of findings
  /// Calls for which Finding::stalled had room.
  size_t most_stalled_calls = std::numeric_limits<size_t>::max();
  /// Asked now and then, on the caller's thread: true ends the export with ErrorKind::kInterrupted.
  std::function<bool()> stopped;
};

/// Streams `source` table by table: memory is bounded by its processes, connections and stacks, and by kMostTracks.
/// `report` is of the same source, with Finding::stalled. Fails if the source or the sink does, was stopped, or if none
/// of the ranks is recorded (kNotFound). Calls encoder.finish() unless it fails before.
Result<TraceSummary> export_trace(EventSource& source, const Report& report, std::span<const NodeClock> clocks,
                                  const TraceOptions& options, TraceEncoder& encoder);

}  // namespace stalltrace::trace_export
