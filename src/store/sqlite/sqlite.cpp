// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/sqlite.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace stalltrace::store {

namespace {

/// A disk or a file server that fails.
std::unexpected<Error> fail_io(sqlite3* db, std::string_view context) {
  if (sqlite3_extended_errcode(db) == SQLITE_IOERR_SHORT_READ) {
    return fail(fmt::format("{}: the file ends where more was expected", context),
                "copy it again from where it was made");
  }
  const int reason = sqlite3_system_errno(db);
  return fail(fmt::format("{}: {}{}", context, sqlite3_errmsg(db),
                          reason == 0 ? "" : fmt::format(" ({})", std::generic_category().message(reason))),
              "see what the kernel reports of that disk or file server (dmesg), or use another one");
}

}  // namespace

std::unexpected<Error> fail_sqlite(sqlite3* db, std::string_view context) {
  const int code = db != nullptr ? sqlite3_errcode(db) : SQLITE_NOMEM;
  ErrorKind kind = ErrorKind::kFailed;
  std::string remedy;
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      kind = ErrorKind::kCorrupt;
      remedy = "the file is damaged: copy it again from where it was made";
      break;
    case SQLITE_INTERRUPT:
      return fail(fmt::format("{}: reading it takes more work than a file of its size can hold", context),
                  "the file is damaged, or made to keep its reader busy: copy it again from where it was made",
                  ErrorKind::kInterrupted);
    case SQLITE_NOMEM:
      remedy = "it needs more memory than a recording may take: ask for less of it";
      break;
    case SQLITE_TOOBIG:
      remedy = "a text in it is longer than any that stalltrace writes";
      break;
    case SQLITE_FULL:
      remedy = "free some disk space";
      break;
    case SQLITE_IOERR:
      if (sqlite3_system_errno(db) == EFBIG) {
        return fail(fmt::format("{}: the file has the size that this process's files may have", context),
                    "raise the limit (ulimit -f)");
      }
      return fail_io(db, context);
    case SQLITE_CANTOPEN:
      remedy = "its folder must exist, and let you in";
      break;
    default:
      break;
  }
  return fail(fmt::format("{}: {}", context, db != nullptr ? sqlite3_errmsg(db) : "out of memory"), std::move(remedy),
              kind);
}

bool is_without_room(sqlite3* db) {
  const int code = sqlite3_errcode(db) & 0xff;
  const int reason = sqlite3_system_errno(db);
  return code == SQLITE_FULL || (code == SQLITE_IOERR && (reason == EFBIG || reason == EDQUOT));
}

bool is_full(sqlite3* db) { return (sqlite3_errcode(db) & 0xff) == SQLITE_FULL; }

std::string_view Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), column));
  return bytes == nullptr ? std::string_view()
                          : std::string_view(bytes, static_cast<size_t>(sqlite3_column_bytes(handle_.get(), column)));
}

Result<Database> Database::open(const std::string& target, int flags, const char* vfs) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(target.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, vfs);
  Database db;
  db.handle_.reset(handle);
  if (code != SQLITE_OK) {
    return fail_sqlite(handle, "open");
  }
  sqlite3_busy_timeout(handle, 5000);
  return db;
}

Status Database::guard(Guard limits, const std::string& settings) {
  auto next = std::make_unique<Guard>(std::move(limits));
  const Status watched = watch(*this, *next, settings);
  guard_ = std::move(next);
  return watched;
}

void Database::cancel_with(const std::atomic<bool>* cancelled) { guard_->cancelled = cancelled; }

void Database::restart_guard() {
  if (guard_) {
    guard_->steps = 0;
  }
}

std::string Database::path() const {
  const char* name = sqlite3_db_filename(get(), "main");
  return name == nullptr ? "" : name;
}

Status Database::execute(const std::string& sql) {
  if (sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return fail_sqlite(get(), "SQLite");
  }
  return {};
}

Result<Statement> Database::prepare(const std::string& sql) {
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v3(get(), sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &handle, nullptr) != SQLITE_OK) {
    return fail_sqlite(get(), "SQLite");
  }
  return Statement(handle);
}

Result<int64_t> Database::integer(const std::string& sql) {
  ST_ASSIGN(Statement statement, prepare(sql));
  switch (statement.step()) {
    case SQLITE_ROW:
      return statement.integer(0);
    case SQLITE_DONE:
      return 0;
    default:
      return fail_sqlite(get(), "SQLite");
  }
}

Result<std::string> Database::text(const std::string& sql) {
  ST_ASSIGN(Statement statement, prepare(sql));
  switch (statement.step()) {
    case SQLITE_ROW:
      return std::string(statement.text(0));
    case SQLITE_DONE:
      return std::string();
    default:
      return fail_sqlite(get(), "SQLite");
  }
}

Result<Transaction> Transaction::begin(Database& db, const char* how) {
  ST_TRY(db.execute(how));
  return Transaction(db);
}

Status Transaction::commit() {
  ST_TRY(db_->execute("COMMIT"));
  db_ = nullptr;
  return {};
}

Transaction::~Transaction() {
  if (db_ != nullptr && sqlite3_get_autocommit(db_->get()) == 0) {
    sqlite3_exec(db_->get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

namespace {

std::string quote(std::string_view text, char mark) {
  std::string quoted(1, mark);
  for (const char c : text) {
    quoted.append(c == mark ? 2 : 1, c);
  }
  return quoted += mark;
}

}  // namespace

std::string quote_name(std::string_view name) { return quote(name, '"'); }
std::string quote_text(std::string_view text) { return quote(text, '\''); }

std::string file_uri(std::string_view path, std::string_view parameters) {
  std::string uri =
      path.starts_with('/') ? "file://" : "file:";  // "file://" HOST: an empty host before a path from the root
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%') {
      uri += fmt::format("%{:02X}", static_cast<unsigned>(c));
    } else {
      uri += c;
    }
  }
  return fmt::format("{}?{}", uri, parameters);
}

}  // namespace stalltrace::store
