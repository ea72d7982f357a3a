// SPDX-License-Identifier: Apache-2.0
#include "store/schema/known_schema.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "store/schema/schema.h"

namespace stalltrace::store {
namespace {

/// Type, name, table.
using Name = std::tuple<std::string, std::string, std::string>;
/// The declarations that each has in our schema versions.
using Declarations = std::map<Name, std::set<std::string>>;

constexpr const char* kColumns = "SELECT type, name, tbl_name, ifnull(sql, ''), rootpage FROM";

/// Without the white space that means nothing.
std::string squeezed(std::string_view sql) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  const auto joins = [](char c) { return c == '(' || c == ')' || c == ','; };
  std::string text;
  bool space = false;
  for (const char c : sql) {
    if (is_space(c)) {
      space = true;
      continue;
    }
    if (space && !text.empty() && !joins(c) && !joins(text.back())) {
      text += ' ';
    }
    space = false;
    text += c;
  }
  return text;
}

Result<Declarations> make_declarations() {
  Declarations known;
  ST_ASSIGN(Database db, Database::open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  for (size_t version = 1; version <= migrations().size(); ++version) {
    ST_TRY(migrate(db, migrations().first(version)));
    ST_ASSIGN(Statement select, db.prepare(fmt::format("{} sqlite_schema", kColumns)));
    int code = SQLITE_DONE;
    while ((code = select.step()) == SQLITE_ROW) {
      known[{std::string(select.text(0)), std::string(select.text(1)), std::string(select.text(2))}].insert(
          squeezed(select.text(3)));
    }
    if (code != SQLITE_DONE) {
      return fail_sqlite(db.get(), "schema");
    }
  }
  return known;
}

std::unexpected<Error> fail_unknown(std::string_view what, std::string_view type, std::string_view name) {
  constexpr size_t kShown = 60;
  return fail(fmt::format("{} {} '{}', so it was not read", what, type, name.substr(0, kShown)),
              "read a copy from the node that made it; stalltrace query shows what is in this one",
              ErrorKind::kCorrupt);
}

}  // namespace

Status check_known_schema(Database& db, const char* database) {
  static const Result<Declarations> known = make_declarations();
  if (!known) {
    return std::unexpected(known.error());
  }
  ST_ASSIGN(Statement select, db.prepare(fmt::format("{} {}.sqlite_schema", kColumns, database)));
  int code = SQLITE_DONE;
  while ((code = select.step()) == SQLITE_ROW) {
    const std::string type(select.text(0));
    const std::string name(select.text(1));
    const auto found = known->find({type, name, std::string(select.text(2))});
    if (found == known->end()) {
      return fail_unknown("holds something that no stalltrace makes:", type, name);
    }
    if (!found->second.contains(squeezed(select.text(3)))) {
      return fail_unknown("declares differently from stalltrace:", type, name);
    }
    if ((type == "view") != (select.integer(4) == 0)) {
      return fail_unknown("holds no rows of its own for", type, name);
    }
  }
  return code == SQLITE_DONE ? Status() : Status(fail_sqlite(db.get(), "schema"));
}

}  // namespace stalltrace::store
