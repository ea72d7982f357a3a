// SPDX-License-Identifier: Apache-2.0
// Recordings as a source of events for analysis and export. Reads any recording of this or an older schema, finished,
// running or left by a killed tracer, and alters nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/source.h"
#include "store/btree/fallback.h"

namespace stalltrace {

Result<std::unique_ptr<EventSource>> open_recording(const std::string& path);

/// Several recordings as one, in one order of time. A node's run that is in two of them is read once; of two runs that
/// share an id by chance, the second is given another. For one thread; it reads ahead with threads of its own. Each
/// range is read in a transaction per file: rows that a tracer adds later are in the next range read, not in this one.
/// Streamed tables take some MiB whatever their size, the others are in memory as a whole. No paths: no events.
/// `fallbacks`, which outlives the source, counts why rows of closed files were read with SQL.
Result<std::unique_ptr<EventSource>> open_recordings(std::span<const std::string> paths,
                                                     FallbackCounts* fallbacks = nullptr);

/// One sentence for each reason that has to do with the file's content; none for a file still written to.
std::vector<std::string> notes_of(const FallbackCounts& fallbacks);

}  // namespace stalltrace
