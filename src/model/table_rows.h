// SPDX-License-Identifier: Apache-2.0
// Rows of any SQL table, passed from the query to its printer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"

namespace stalltrace {

/// Bytes of an SQL BLOB, distinct from text.
struct Blob {
  std::string bytes;
  bool operator==(const Blob&) const = default;
};

/// NULL is std::monostate.
using Value = std::variant<std::monostate, int64_t, double, std::string, Blob>;

/// Receives the column names once, before the first row and also without any row; then the rows. A row's values are
/// valid during the call. `row` returns false to stop early, which is no error.
class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual Status columns(const std::vector<std::string>& names) = 0;
  virtual Result<bool> row(std::span<const Value> values) = 0;
};

}  // namespace stalltrace
