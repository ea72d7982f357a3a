// SPDX-License-Identifier: Apache-2.0
// Profiler files → events: makes a recording from the profiler plugin's files alone. Needs no privilege, kernel or
// agent; the processes may be running, hanging or dead.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/process/procfs.h"
#include "base/result.h"
#include "model/events.h"

namespace stalltrace::blackbox {

struct ImportSummary {
  size_t processes = 0;
  size_t nodes = 0;
  size_t living = 0;  // processes still running on this host
  uint64_t collectives = 0;
  uint64_t open = 0;
};

/// Delivers the rows of every file; duplicates in `paths` are delivered once. A file that can't be read is left out,
/// and `note` gets the reason; it is an error if none can be read. Reads all files twice: first who wrote them, by
/// which clock, and who outlived whom, then their events, those of one file at a time in memory. A file has at most 512
/// MiB.
Result<ImportSummary> import_profiler_files(std::span<const std::string> paths, EventSink& sink,
                                            const std::function<void(const Error&)>& note,
                                            CommandLines commands = CommandLines::kRedacted);

}  // namespace stalltrace::blackbox
