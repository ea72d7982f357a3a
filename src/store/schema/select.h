// SPDX-License-Identifier: Apache-2.0
// SELECT statements over the column lists. A table or column that an older schema lacks reads as empty or NULL.
// Internal to store/.
#pragma once

#include <string>

#include "store/schema/bind.h"
#include "store/schema/table.h"

namespace stalltrace::store {

/// "SELECT a, b, NULL, c FROM table", or a statement without rows if the table is missing.
Result<std::string> select_sql(Database& db, std::string_view table, const std::vector<std::string>& columns);

template <typename T>
void extract(Statement& statement, T& row) {
  StatementColumns columns(statement.get(), 0);
  each_column(row, Extractor(columns));
}

}  // namespace stalltrace::store
