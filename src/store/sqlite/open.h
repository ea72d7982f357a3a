// SPDX-License-Identifier: Apache-2.0
// Opening recordings, finished or not, of any writer. Internal to store/.
#pragma once

#include <string>

#include "base/handle.h"
#include "base/result.h"
#include "store/sqlite/guard.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Opens `path`, which may come from anyone, for reading only and checks that it is a recording; for kVerb its schema,
/// too (known_schema.h). Everything that reads recordings opens them with this or attach_for_reading, which put the
/// same limits on the connection (guard.h); `deadline_ns` is one of them. Nothing beside the file is created or
/// altered:
///  - closed cleanly (no write-ahead log): opened as immutable, which also works on read-only media;
///  - being written: opened as any SQLite client does, sharing the writer's memory;
///  - left by a killed tracer (a log, no writer): the log is read, but its index is kept in this process's memory.
Result<Database> open_for_reading(const std::string& path, ReaderKind kind = ReaderKind::kVerb,
                                  int64_t deadline_ns = 0);

/// Attaches `path` to a connection of our own file as `input`, opened and checked as by open_for_reading.
Status attach_for_reading(Database& db, const std::string& path);

/// True while a tracer is writing `path`.
bool is_being_written(const std::string& path);

/// The lock a writer holds for its life: on the write-ahead log, since closing a descriptor of the database itself
/// would drop SQLite's own locks on it. Empty where somebody else holds it.
UniqueFd lock_writer(const std::string& path);

/// The errors a user can meet before SQLite is asked: missing, a folder, empty, unreadable, no SQLite, cut short.
Status check_file(const std::string& path);

}  // namespace stalltrace::store
