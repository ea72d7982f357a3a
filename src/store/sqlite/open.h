// SPDX-License-Identifier: Apache-2.0
// Opening recordings, finished or not, of any writer. Internal to store/.
#pragma once

#include <string>

#include "base/handle.h"
#include "base/result.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Opens `path` for reading only and checks that it is a recording. Nothing beside it is created or altered:
///  - closed cleanly (no write-ahead log): opened as immutable, which also works on read-only media;
///  - being written: opened as any SQLite client does, sharing the writer's memory;
///  - left by a killed tracer (a log, no writer): the log is read, but its index is kept in this process's memory.
Result<Database> open_for_reading(const std::string& path);

/// The URI with which SQLite opens a file as open_for_reading does; for ATTACH.
struct ReadingTarget {
  std::string uri;
  /// Whether `PRAGMA locking_mode` must be EXCLUSIVE before, which keeps the log's index in memory.
  bool exclusive = false;
};
Result<ReadingTarget> reading_target(const std::string& path);

/// True while a tracer is writing `path`.
bool is_being_written(const std::string& path);

/// The lock a writer holds for its life: on the write-ahead log, since closing a descriptor of the database itself
/// would drop SQLite's own locks on it. Empty where somebody else holds it.
UniqueFd lock_writer(const std::string& path);

/// The errors a user can meet before SQLite is asked: missing, a folder, empty, unreadable, no SQLite, cut short.
Status check_file(const std::string& path);

}  // namespace stalltrace::store
