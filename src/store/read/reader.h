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

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/source.h"
#include "store/btree/fallback.h"

namespace stalltrace::store {

Result<std::unique_ptr<EventSource>> open_recording(const std::string& path);

/// What a source met in its files. Outlives the source.
struct ReadReport {
  FallbackCounts fallbacks{};  // why rows of closed files were read with SQL
  /// By table: rows that were left out, because a time or a size in them can't be true (plausible.h).
  std::map<std::string, int64_t> left_out;

  [[nodiscard]] int64_t rows_left_out() const;
  /// One sentence for each thing that has to do with the files' content; none for a file still written to.
  [[nodiscard]] std::vector<std::string> notes() const;
};

/// Several recordings as one, in one order of time; rows of equal time in the order of `paths`. A node's run that is in
/// two of them is read once, from the fuller; of two runs that share an id by chance the second gets another. No paths:
/// a source without rows.
Result<std::unique_ptr<EventSource>> open_recordings(std::span<const std::string> paths, ReadReport* report = nullptr);

}  // namespace stalltrace::store
