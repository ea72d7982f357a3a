// SPDX-License-Identifier: Apache-2.0
// SQL queries of users that can't change a recording: one SELECT, an authorizer that refuses everything but reading, a
// time limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/table_rows.h"

namespace stalltrace::store {

struct QueryOptions {
  int64_t time_limit_ns = 60'000'000'000;        // 0: no limit
  const std::atomic<bool>* cancelled = nullptr;  // ends the query once it is set, like the time limit
  int most_row_bytes = 0;  // of texts and blobs, of one row and of each value on the way; 0: no limit
};

/// Runs one statement on the recording at `path`. Errors: SQLite's message about the SQL, with the similar table name
/// or the query that lists the tables (kUsage), a refused write (kUsage), the time limit (kInterrupted), a bad file.
Status query_recording(const std::string& path, std::string_view sql, const QueryOptions& options, RowSink& sink);

}  // namespace stalltrace::store
