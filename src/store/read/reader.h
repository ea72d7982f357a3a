// SPDX-License-Identifier: Apache-2.0
// Recordings as an event source for analysis and reports. Reads recordings of this or an older schema, finished,
// running or left by a killed tracer, without changing them. A table or column that an older schema lacks reads as
// empty or unknown.
//
// A source keeps its files open and is used by one thread at a time. While it streams, it reads ahead with up to three
// threads of its own, which end before the call returns. Each call sees one state of each file: for a recording that is
// still written, a later call can see more. Memory is bounded to some thousand rows per file. Streams of a complete
// recording are read from the file's pages (store/btree), those of any other with SQL.
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

/// Facts about the files that the source has read. Must outlive the source.
struct ReadReport {
  FallbackCounts fallbacks{};  // why rows of closed files were read with SQL
  /// By table: number of rows left out because a time or a size in them is impossible (plausible.h).
  std::map<std::string, int64_t> left_out;

  [[nodiscard]] int64_t rows_left_out() const;
  /// One sentence per fact about the files' content; none for a file that is still written.
  [[nodiscard]] std::vector<std::string> notes() const;
};

class OpenRecordings : public EventSource {
 public:
  /// The work that a source may make of a file is limited (sqlite/guard.h). For a source that serves many requests,
  /// each of which may do as much.
  virtual void begin_request() = 0;
};

/// Several recordings as one, in one time order; rows with equal times in the order of `paths`. A node run in several
/// recordings is read once, from the one with the most rows; if two runs share an id by chance, the second gets
/// another. Without paths the source has no rows.
Result<std::unique_ptr<OpenRecordings>> open_recordings(std::span<const std::string> paths,
                                                        ReadReport* report = nullptr);

}  // namespace stalltrace::store
