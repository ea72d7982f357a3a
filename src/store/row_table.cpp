// SPDX-License-Identifier: Apache-2.0
#include "store/row_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "store/run_query.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {
namespace {

void bind(sqlite3_stmt* statement, int index, const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    sqlite3_bind_int64(statement, index, *integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    sqlite3_bind_double(statement, index, *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    sqlite3_bind_text(statement, index, text->data(), static_cast<int>(text->size()), SQLITE_STATIC);
  } else if (const auto* blob = std::get_if<Blob>(&value)) {
    sqlite3_bind_blob(statement, index, blob->bytes.data(), static_cast<int>(blob->bytes.size()), SQLITE_STATIC);
  } else {
    sqlite3_bind_null(statement, index);
  }
}

/// SQLite compares names so.
std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  return text;
}

class MemoryTable final : public RowTable {
 public:
  explicit MemoryTable(Database db) : db_(std::move(db)) {}

  Status columns(const std::vector<std::string>& names) override {
    std::string declared;
    std::string marks;
    std::set<std::string> used;
    for (const std::string& name : names) {
      std::string own = name;
      for (int number = 2; !used.insert(lower(own)).second; ++number) {
        own = fmt::format("{}_{}", name, number);
      }
      declared += (declared.empty() ? "" : ", ") + quote_name(own);
      marks += marks.empty() ? "?" : ", ?";
    }
    ST_TRY(db_.execute(fmt::format("CREATE TABLE rows({})", declared)));
    ST_ASSIGN(insert_, db_.prepare(fmt::format("INSERT INTO rows VALUES ({})", marks)));
    return db_.execute("BEGIN");
  }

  Result<bool> row(std::span<const Value> values) override {
    for (size_t i = 0; i < values.size(); ++i) {
      bind(insert_.get(), static_cast<int>(i) + 1, values[i]);
    }
    const int code = insert_.step();
    insert_.reset();
    return code == SQLITE_DONE ? Result<bool>(true) : fail_sqlite(db_.get(), "keep the rows");
  }

  Status query(std::string_view sql, const QueryOptions& options, RowSink& sink) override {
    if (insert_) {
      insert_ = Statement();
      ST_TRY(db_.execute("COMMIT"));
    }
    const int64_t deadline_ns = options.time_limit_ns > 0 ? monotonic_now_ns() + options.time_limit_ns : 0;
    ST_TRY(db_.guard({.kind = ReaderKind::kQuery, .path = {}, .deadline_ns = deadline_ns}, "PRAGMA query_only = ON"));
    return run_query(db_, "FILE", sql, options, sink);
  }

 private:
  Database db_;
  Statement insert_;
};

}  // namespace

Result<std::unique_ptr<RowTable>> RowTable::make() {
  ST_ASSIGN(Database db, Database::open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  return std::make_unique<MemoryTable>(std::move(db));
}

}  // namespace stalltrace::store
