// SPDX-License-Identifier: Apache-2.0
// What a connection to somebody else's file may do and cost. A recording comes from anyone: its schema is a program to
// SQLite and its pages can form a tree that never ends. Internal to store/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;

namespace stalltrace::store {

class Database;

/// Who asks.
enum class ReaderKind : uint8_t {
  kVerb,   // statements of ours on tables that were compared with ours (known_schema.h): no view, no trigger
  kMerge,  // as kVerb, and rows are put into the tables of `main`, which is ours
  kQuery,  // SQL of a person, on any schema: SELECT alone
};

/// The limits of one connection. Lives as long as the connection does.
struct Guard {
  ReaderKind kind = ReaderKind::kVerb;
  std::string path;         // kVerb and kMerge: the file whose size bounds the work
  int64_t deadline_ns = 0;  // of the monotonic clock; 0: none
  int64_t steps = 0;        // of SQLite's virtual machine so far
};

/// Puts the limits on a connection that reads somebody else's file, before its first statement: nothing of the schema
/// is run, no extensions, no virtual tables but those of JSON, small limits, temporary tables in memory, pages checked;
/// only what `guard.kind` needs is allowed, for as much work as the file's size can justify, or until the deadline.
/// `settings` are statements that come first and are allowed all the same. `guard` must outlive the connection or be
/// replaced.
Status watch(Database& db, Guard& guard, const std::string& settings);

/// More rows than this are in no file of the size that `path` and its log have now.
int64_t most_rows(const std::string& path);
std::unexpected<Error> fail_more_rows(const std::string& path, std::string_view table);

}  // namespace stalltrace::store
