// SPDX-License-Identifier: Apache-2.0
#include "store/schema/select.h"

#include <set>

namespace stalltrace::store {

Result<std::string> select_sql(Database& db, std::string_view table, const std::vector<std::string>& columns) {
  ST_ASSIGN(Statement names, db.prepare("SELECT name FROM pragma_table_info(?)"));
  names.bind(1, table);
  std::set<std::string, std::less<>> present;
  int code = SQLITE_DONE;
  while ((code = names.step()) == SQLITE_ROW) {
    present.emplace(names.text(0));
  }
  if (code != SQLITE_DONE) {
    return fail_sqlite(db.get(), fmt::format("{}: {}", db.path(), table));
  }
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
