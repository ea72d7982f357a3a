// SPDX-License-Identifier: Apache-2.0
#include "store/schema/known_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "store/schema/schema.h"

namespace stalltrace::store {
namespace {

constexpr const char* kColumns = "SELECT type, name, tbl_name, ifnull(sql, ''), rootpage FROM";

/// Removes insignificant white space.
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

/// Removes and returns the part of `sql` before any of `ends`; also removes that character.
std::string_view take_word(std::string_view& sql, std::string_view ends) {
  const size_t end = std::min(sql.find_first_of(ends), sql.size());
  const std::string_view word = sql.substr(0, end);
  sql.remove_prefix(std::min(end + 1, sql.size()));
  return word;
}

bool take(std::string_view& sql, std::string_view begin) {
  if (!sql.starts_with(begin)) {
    return false;
  }
  sql.remove_prefix(begin.size());
  return true;
}

/// The declaration of a table with an added column in SQLite's form: after the last column, before the table's key.
std::string with_column(std::string declaration, std::string_view column) {
  const size_t key = declaration.find(",PRIMARY KEY(");
  const size_t end = key != std::string::npos ? key : declaration.rfind(')');
  return declaration.insert(end, fmt::format(",{}", column));
}

/// Reads a statement of a migration; false if its form is not supported.
bool declare(std::string_view statement, Declarations& known, std::map<std::string, std::string>& tables) {
  const std::string whole(statement);
  if (take(statement, "CREATE TABLE ")) {
    const std::string name(take_word(statement, "("));
    tables[name] = whole;
    known[{"table", name, name}].insert(whole);
  } else if (take(statement, "CREATE INDEX ")) {
    const std::string name(take_word(statement, " "));
    take(statement, "ON ");
    known[{"index", name, std::string(take_word(statement, "("))}].insert(whole);
  } else if (take(statement, "CREATE VIEW ")) {
    const std::string name(take_word(statement, " "));
    known[{"view", name, name}].insert(whole);
  } else if (take(statement, "ALTER TABLE ")) {
    const std::string name(take_word(statement, " "));
    const auto table = tables.find(name);
    if (table == tables.end() || !take(statement, "ADD COLUMN ")) {
      return false;
    }
    table->second = with_column(table->second, statement);
    known[{"table", name, name}].insert(table->second);
  } else {
    return statement.empty();
  }
  return true;
}

}  // namespace

std::optional<Declarations> declarations_in(std::span<const char* const> steps) {
  Declarations known;
  std::map<std::string, std::string> tables;
  for (const std::string_view step : steps) {
    for (const std::string_view statement : split(step, ';')) {
      if (!declare(squeezed(statement), known, tables)) {
        return std::nullopt;
      }
    }
  }
  return known;
}

Result<Declarations> declarations_by_sqlite(std::span<const char* const> steps) {
  Declarations known;
  ST_ASSIGN(Database db, Database::open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  for (size_t version = 1; version <= steps.size(); ++version) {
    ST_TRY(migrate(db, steps.first(version)));
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

namespace {

Result<Declarations> make_declarations() {
  auto known = declarations_in(migrations());
  return known ? Result<Declarations>(std::move(*known)) : declarations_by_sqlite(migrations());
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
