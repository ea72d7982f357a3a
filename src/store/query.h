// SPDX-License-Identifier: Apache-2.0
// SQL for people, on recordings that nobody can harm with it: one SELECT, an authorizer that refuses everything but
// reading, a time limit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace stalltrace {

/// Bytes of an SQL BLOB, apart from text.
struct Blob {
  std::string bytes;
  bool operator==(const Blob&) const = default;
};

/// NULL is std::monostate.
using Value = std::variant<std::monostate, int64_t, double, std::string, Blob>;

struct QueryOptions {
  int64_t time_limit_ns = 60'000'000'000;  // 0 for none
};

/// Gets the column names once, before the first row, also when there is no row; then the rows. A row's values are
/// valid during the call. `row` returns false to stop early, which is no error.
class QuerySink {
 public:
  virtual ~QuerySink() = default;
  virtual Status columns(const std::vector<std::string>& names) = 0;
  virtual Result<bool> row(std::span<const Value> values) = 0;
};

/// Runs one statement on the recording at `path`. Errors: what SQLite says of the SQL (kUsage), a refused write
/// (kUsage), the time limit (kInterrupted), a bad file.
Status query_recording(const std::string& path, std::string_view sql, const QueryOptions& options, QuerySink& sink);

}  // namespace stalltrace
