// SPDX-License-Identifier: Apache-2.0
// Recordings as a source of events for analysis and reports. Reads any recording of this or an older schema, finished,
// running or left by a killed tracer, and alters nothing. A table or column that an older schema lacks reads as empty
// or unknown.
//
// A source keeps its files open and is used by one thread at a time; while it streams, it reads ahead with up to three
// threads of its own, which are gone when the call returns. Each call sees one state of each file: of a recording that
// is still written a later call can see more. Memory is bounded by some thousand rows per file, whatever its size. Of a
// complete recording streams are read from the file's pages (store/btree), of any other with SQL.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/source.h"
#include "store/btree/fallback.h"

namespace stalltrace::store {

Result<std::unique_ptr<EventSource>> open_recording(const std::string& path);

/// Several recordings as one, in one order of time; rows of equal time in the order of `paths`. A node's run that is in
/// two of them is read once, from the fuller; of two runs that share an id by chance the second gets another. No paths:
/// a source without rows. `fallbacks`, which outlives the source, counts why rows of closed files were read with SQL.
Result<std::unique_ptr<EventSource>> open_recordings(std::span<const std::string> paths,
                                                     FallbackCounts* fallbacks = nullptr);

/// One sentence for each reason that has to do with the file's content; none for a file still written to.
std::vector<std::string> notes_of(const FallbackCounts& fallbacks);

}  // namespace stalltrace::store
