// SPDX-License-Identifier: Apache-2.0
// SQL for people, on recordings that nobody can harm with it: one SELECT, an authorizer that refuses everything but
// reading, a time limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/table_rows.h"

namespace stalltrace::store {

struct QueryOptions {
  int64_t time_limit_ns = 60'000'000'000;  // 0 for none
};

/// Runs one statement on the recording at `path`. Errors: what SQLite says of the SQL, with the table that was probably
/// meant or the query that lists what there is (kUsage), a refused write (kUsage), the time limit (kInterrupted), a bad
/// file.
Status query_recording(const std::string& path, std::string_view sql, const QueryOptions& options, RowSink& sink);

}  // namespace stalltrace::store
