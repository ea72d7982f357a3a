// SPDX-License-Identifier: Apache-2.0
#include "store/query.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/similar_name.h"
#include "base/text.h"
#include "store/run_query.h"
#include "store/schema/open_recording.h"

namespace stalltrace::store {
namespace {

constexpr const char* kReadOnly = "queries only read: use SELECT, or copy the file and change the copy";

/// A statement and its file, for error messages.
struct Asked {
  const std::string& path;
  std::string_view sql;
  const QueryOptions& options;
};

std::string command_for(const Asked& asked, std::string_view sql) {
  return fmt::format("stalltrace query {} \"{}\"", asked.path, sql);
}

std::string how_to_list_tables(const Asked& asked) {
  return command_for(asked, "SELECT name FROM sqlite_master") + " lists the tables";
}

/// Names of tables and views; empty if they can't be read.
std::vector<std::string> table_names(Database& db) {
  std::vector<std::string> names;
  sqlite3_stmt* handle = nullptr;
  constexpr const char* kSql = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')";
  if (sqlite3_prepare_v2(db.get(), kSql, -1, &handle, nullptr) != SQLITE_OK) {
    return names;
  }
  Statement statement(handle);
  while (statement.step() == SQLITE_ROW) {
    const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0));
    names.emplace_back(name == nullptr ? "" : name);
  }
  return names;
}

/// Commands of other programs that list the tables.
bool asks_for_schema(std::string_view sql) {
  const std::string_view text = trim(sql);
  return text.starts_with('.') ||
         std::ranges::any_of(std::array{"show", "describe", "desc "}, [&](std::string_view word) {
           return sqlite3_strnicmp(std::string(text).c_str(), word.data(), static_cast<int>(word.size())) == 0;
         });
}

std::unexpected<Error> fail_sql(Database& db, const Asked& asked) {
  const std::string message = sqlite3_errmsg(db.get());
  const auto subject_of = [&](std::string_view begin) -> std::optional<std::string> {
    return message.starts_with(begin) ? std::optional(message.substr(begin.size())) : std::nullopt;
  };
  std::string what = "query: " + message;
  std::string remedy = how_to_list_tables(asked) + "; docs/recording.md describes them";
  if (const auto table = subject_of("no such table: ")) {
    what = fmt::format("query: no such table '{}'", *table);
    const std::vector<std::string> tables = table_names(db);
    const std::vector<std::string_view> names(tables.begin(), tables.end());
    const auto meant = similar_name(*table, names);
    remedy = (meant ? fmt::format("did you mean '{}'? ", *meant) : "") + how_to_list_tables(asked);
  } else if (const auto function = subject_of("no such function: ")) {
    what = fmt::format("query: SQLite has no function {}()", *function);
    remedy = "it has those of sqlite.org/lang_corefunc.html, lang_aggfunc.html and lang_mathfunc.html";
  } else if (subject_of("no such column: ")) {
    remedy = command_for(asked, "SELECT name FROM pragma_table_info('TABLE')") + " lists the columns of a table";
  } else if (asks_for_schema(asked.sql)) {
    what = fmt::format("query: '{}' is not SQL that SQLite knows", trim(asked.sql));
    remedy = how_to_list_tables(asked);
  }
  return fail(std::move(what), std::move(remedy), ErrorKind::kUsage);
}

std::unexpected<Error> fail_large(const Asked& asked) {
  const std::string most =
      asked.options.most_row_bytes > 0 ? " than " + format_size(asked.options.most_row_bytes) : " than SQLite takes";
  return fail("query: a value or a row is larger" + most, "ask for less of it: substr(), or fewer columns",
              ErrorKind::kUsage);
}

std::unexpected<Error> fail_query(Database& db, const Asked& asked) {
  const int code = sqlite3_errcode(db.get()) & 0xff;
  switch (code) {
    case SQLITE_AUTH:
      return fail(fmt::format("query refused: {}", sqlite3_errmsg(db.get())), kReadOnly, ErrorKind::kUsage);
    case SQLITE_INTERRUPT:
      return fail(fmt::format("query stopped after its time limit of {}", format_duration(asked.options.time_limit_ns)),
                  "narrow it by time or add a LIMIT", ErrorKind::kInterrupted);
    case SQLITE_TOOBIG:
      return fail_large(asked);
    case SQLITE_ERROR:
      return fail_sql(db, asked);
    default:
      return fail_sqlite(db.get(), "query");
  }
}

/// Prepares the one statement in `sql`; only space and comments may follow it.
Result<Statement> prepare_one(Database& db, const Asked& asked) {
  const std::string_view sql = asked.sql;
  sqlite3_stmt* handle = nullptr;
  const char* rest = nullptr;
  if (sqlite3_prepare_v2(db.get(), sql.data(), static_cast<int>(sql.size()), &handle, &rest) != SQLITE_OK) {
    return fail_query(db, asked);
  }
  Statement statement(handle);
  if (!statement) {
    return fail("query: no SQL in it", "give a SELECT statement", ErrorKind::kUsage);
  }
  if (sqlite3_stmt_readonly(handle) == 0) {
    return fail("query refused: it writes", kReadOnly, ErrorKind::kUsage);
  }
  sqlite3_stmt* more = nullptr;
  const int code = sqlite3_prepare_v2(db.get(), rest, static_cast<int>(sql.data() + sql.size() - rest), &more, nullptr);
  const Statement second(more);
  if (code != SQLITE_OK || second) {
    return fail("query refused: more than one statement", "give one SELECT at a time", ErrorKind::kUsage);
  }
  return statement;
}

Value value_of(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement, column);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    case SQLITE_NULL:
      return std::monostate{};
    default:
      break;
  }
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
  std::string content(bytes == nullptr ? "" : bytes, static_cast<size_t>(sqlite3_column_bytes(statement, column)));
  if (sqlite3_column_type(statement, column) == SQLITE_BLOB) {
    return Blob{std::move(content)};
  }
  return content;
}

Status deliver(Database& db, Statement& statement, const Asked& asked, RowSink& sink) {
  const int count = sqlite3_column_count(statement.get());
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    const char* name = sqlite3_column_name(statement.get(), i);
    names.emplace_back(name == nullptr ? "" : name);
  }
  ST_TRY(sink.columns(names));
  std::vector<Value> values(static_cast<size_t>(count));
  int code = SQLITE_DONE;
  while ((code = statement.step()) == SQLITE_ROW) {
    int64_t bytes = 0;
    for (int i = 0; i < count; ++i) {
      const int type = sqlite3_column_type(statement.get(), i);
      bytes += type == SQLITE_TEXT || type == SQLITE_BLOB ? sqlite3_column_bytes(statement.get(), i) : 0;
      if (asked.options.most_row_bytes > 0 && bytes > asked.options.most_row_bytes) {
        return fail_large(asked);
      }
      values[static_cast<size_t>(i)] = value_of(statement.get(), i);
    }
    ST_ASSIGN(const bool more, sink.row(values));
    if (!more) {
      return {};
    }
  }
  return code == SQLITE_DONE ? Status() : Status(fail_query(db, asked));
}

}  // namespace

Status run_query(Database& db, const std::string& path, std::string_view sql, const QueryOptions& options,
                 RowSink& sink) {
  if (options.most_row_bytes > 0) {
    sqlite3_limit(db.get(), SQLITE_LIMIT_LENGTH, options.most_row_bytes);
  }
  const Asked asked{path, sql, options};
  ST_ASSIGN(Statement statement, prepare_one(db, asked));
  return deliver(db, statement, asked, sink);
}

Status query_recording(const std::string& path, std::string_view sql, const QueryOptions& options, RowSink& sink) {
  const int64_t deadline_ns = options.time_limit_ns > 0 ? monotonic_now_ns() + options.time_limit_ns : 0;
  ST_ASSIGN(Database db, open_for_reading(path, ReaderKind::kQuery, deadline_ns));
  db.cancel_with(options.cancelled);
  return run_query(db, path, sql, options, sink);
}

}  // namespace stalltrace::store
