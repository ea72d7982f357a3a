// SPDX-License-Identifier: Apache-2.0
// Rows that were gathered, as a table in memory that can be asked in SQL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/table_rows.h"
#include "store/query.h"

namespace stalltrace::store {

/// Takes the rows first; then query() may be called. The table is called `rows`; of columns with one name, the second
/// gets "_2" after it.
class RowTable : public RowSink {
 public:
  static Result<std::unique_ptr<RowTable>> make();
  /// As query_recording, on this table. Without columns() there is none.
  virtual Status query(std::string_view sql, const QueryOptions& options, RowSink& sink) = 0;
};

}  // namespace stalltrace::store
