// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/table_columns.h"

#include <fmt/format.h>

#include <utility>

namespace stalltrace::store {

Result<std::vector<DeclaredColumn>> declared_columns(Database& db, std::string_view table, std::string_view schema) {
  ST_ASSIGN(Statement select, db.prepare(fmt::format("SELECT name, type, dflt_value IS NOT NULL, pk, hidden"
                                                     " FROM pragma_table_xinfo(?{}) ORDER BY cid",
                                                     schema.empty() ? "" : ", ?")));
  select.bind(1, table);
  if (!schema.empty()) {
    select.bind(2, schema);
  }
  std::vector<DeclaredColumn> columns;
  int code = SQLITE_DONE;
  while ((code = select.step()) == SQLITE_ROW) {
    columns.push_back({.name = std::string(select.text(0)),
                       .type = std::string(select.text(1)),
                       .has_default = select.integer(2) != 0,
                       .is_key = select.integer(3) != 0,
                       .is_hidden = select.integer(4) != 0});
  }
  if (code != SQLITE_DONE) {
    return fail_sqlite(db.get(), schema.empty() ? fmt::format("{}: {}", db.path(), table) : std::string(table));
  }
  return columns;
}

Result<std::set<std::string, std::less<>>> visible_columns(Database& db, std::string_view table,
                                                           std::string_view schema) {
  ST_ASSIGN(std::vector<DeclaredColumn> columns, declared_columns(db, table, schema));
  std::set<std::string, std::less<>> names;
  for (DeclaredColumn& column : columns) {
    if (!column.is_hidden) {
      names.insert(std::move(column.name));
    }
  }
  return names;
}

}  // namespace stalltrace::store
