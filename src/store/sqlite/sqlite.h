// SPDX-License-Identifier: Apache-2.0
// Owning wrappers of SQLite's C handles, with errors as values. Internal to store/.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/result.h"
#include "store/sqlite/guard.h"

namespace stalltrace::store {

/// The last error of `db` as one line, "context: SQLite's message"; damage becomes ErrorKind::kCorrupt, a time limit
/// ErrorKind::kInterrupted.
std::unexpected<Error> fail_sqlite(sqlite3* db, std::string_view context);

/// Whether that error is one of room: a full disk, a quota, or the size limit of this process's files (RLIMIT_FSIZE).
bool is_without_room(sqlite3* db);
/// The same, but not where a quota or the limit of a file's size (ulimit -f) refuses: the disk is full, or the database
/// has as many pages as it may have.
bool is_full(sqlite3* db);

/// A prepared statement, bound to the thread and the lifetime of its Database.
class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* handle) : handle_(handle) {}

  [[nodiscard]] sqlite3_stmt* get() const { return handle_.get(); }
  explicit operator bool() const { return handle_ != nullptr; }

  /// SQLite's own result code: SQLITE_ROW, SQLITE_DONE or an error.
  int step() { return sqlite3_step(handle_.get()); }
  void reset() { sqlite3_reset(handle_.get()); }
  void bind(int index, int64_t value) { sqlite3_bind_int64(handle_.get(), index, value); }
  /// `text` must live until the next reset.
  void bind(int index, std::string_view text) {
    sqlite3_bind_text(handle_.get(), index, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  }
  [[nodiscard]] int64_t integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  [[nodiscard]] bool is_null(int column) const { return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL; }
  [[nodiscard]] std::string_view text(int column) const;

 private:
  std::unique_ptr<sqlite3_stmt, Free<sqlite3_finalize>> handle_;
};

/// A connection, used by one thread at a time.
class Database {
 public:
  /// `flags` as in sqlite3_open_v2; `target` is a path, or a URI if SQLITE_OPEN_URI is set. `vfs`: the name of a VFS;
  /// null means SQLite's own.
  static Result<Database> open(const std::string& target, int flags, const char* vfs = nullptr);

  [[nodiscard]] sqlite3* get() const { return handle_.get(); }
  /// The absolute path of the file, for error messages.
  [[nodiscard]] std::string path() const;
  /// Runs one or more statements whose rows are not needed.
  Status execute(const std::string& sql);
  Result<Statement> prepare(const std::string& sql);
  /// The first column of the first row; 0 if there is no row.
  Result<int64_t> integer(const std::string& sql);
  Result<std::string> text(const std::string& sql);
  /// Replaces the limits of the connection (guard.h).
  Status guard(Guard limits, const std::string& settings = {});
  /// The work so far no longer counts against the limits: another request begins.
  void restart_guard();
  /// Stops what runs on the connection once `cancelled` is set; null: nothing does. Only on a guarded connection.
  void cancel_with(const std::atomic<bool>* cancelled);

 private:
  std::unique_ptr<Guard> guard_;  // null: none; outlives the connection
  std::unique_ptr<sqlite3, Free<sqlite3_close_v2>> handle_;
};

/// A read or write transaction; rolls back unless committed.
class Transaction {
 public:
  static Result<Transaction> begin(Database& db, const char* how = "BEGIN");
  Status commit();
  ~Transaction();
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;

 private:
  explicit Transaction(Database& db) : db_(&db) {}
  Database* db_;
};

/// `name` as an SQL identifier, `text` as an SQL string.
std::string quote_name(std::string_view name);
std::string quote_text(std::string_view text);
/// `path` as a file: URI with everything SQLite would interpret escaped.
std::string file_uri(std::string_view path, std::string_view parameters);

}  // namespace stalltrace::store
