// SPDX-License-Identifier: Apache-2.0
// Limits of access and cost for a connection to an untrusted file. A recording may come from any source: its schema is
// a program for SQLite, and its pages can form an endless tree. Internal to store/.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;

namespace stalltrace::store {

class Database;

/// The kind of reader.
enum class ReaderKind : uint8_t {
  kSubcommand,  // our own statements on tables that were compared with ours (known_schema.h): no view, no trigger
  kMerge,       // like kSubcommand, and rows are inserted into the tables of `main`, which is ours
  kQuery,       // a user's SQL, on any schema: only SELECT
};

/// The limits of one connection, with the same lifetime.
struct Guard {
  ReaderKind kind = ReaderKind::kSubcommand;
  std::string path;                              // kSubcommand and kMerge: the file whose size bounds the work
  int64_t deadline_ns = 0;                       // on the monotonic clock; 0: none
  const std::atomic<bool>* cancelled = nullptr;  // stops the work once it is set; null: nothing does
  int64_t steps = 0;                             // of SQLite's virtual machine since the last Database::restart_guard
};

/// Sets the limits of a connection that reads an untrusted file, before its first statement: no code of the schema
/// runs, no extensions, no virtual tables except for JSON, small limits, temporary tables in memory, checked pages.
/// Only what `guard.kind` needs is allowed, for as much work as the file's size justifies, or until the deadline.
/// `settings` are statements that run first and are always allowed. `guard` must outlive the connection or be replaced.
Status watch(Database& db, Guard& guard, const std::string& settings);

/// An upper bound for the number of rows in a file with the current size of `path` and its log.
int64_t most_rows(const std::string& path);
std::unexpected<Error> fail_more_rows(const std::string& path, std::string_view table);

}  // namespace stalltrace::store
