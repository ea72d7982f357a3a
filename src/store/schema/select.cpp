// SPDX-License-Identifier: Apache-2.0
#include "store/schema/select.h"

#include <fmt/format.h>

#include "store/sqlite/table_columns.h"

namespace stalltrace::store {

Result<std::string> select_sql(Database& db, std::string_view table, const std::vector<std::string>& columns) {
  ST_ASSIGN(const auto present, visible_columns(db, table));
  std::string list;
  for (const std::string& column : columns) {
    list += list.empty() ? "" : ", ";
    list += present.contains(column) ? column : "NULL";
  }
  return present.empty()
             ? fmt::format("SELECT {} FROM (SELECT 0 AS id, 0 AS event_id, 0 AS node_id) WHERE 1", list) + " AND 0 = 1"
             : fmt::format("SELECT {} FROM {} WHERE 1", list, table);
}

}  // namespace stalltrace::store
