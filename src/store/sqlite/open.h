// SPDX-License-Identifier: Apache-2.0
// The files of recordings of any origin, finished or not: who writes one, and how SQLite opens it. Internal to store/.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/handle.h"
#include "base/result.h"
#include "store/sqlite/guard.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Bytes of a file; 0 if there is none.
int64_t file_size(const std::string& path);

/// Reports errors that are detected before SQLite opens the file: missing, a folder, empty, unreadable, no SQLite,
/// truncated. They begin with `name`.
Status check_file(const std::string& path, const std::string& name);

/// Opens `path`, which is untrusted and has passed check_file, for reading only, with limits on the connection
/// (guard.h). Nothing of its schema is checked: readers of recordings use open_for_reading (schema/open_recording.h).
/// No file is created or altered:
///  - closed cleanly (no write-ahead log): opened as immutable, which also works on read-only media;
///  - being written: opened as any SQLite client does, sharing the writer's memory;
///  - left by a killed tracer (a log, no writer): the log is read, but its index is kept in this process's memory.
/// Errors do not name the file.
Result<Database> open_file(const std::string& path, ReaderKind kind, int64_t deadline_ns);

/// The same, but attaches the file to a connection of our own file as `input`.
Status attach_file(Database& db, const std::string& path);

/// True if `db` was opened as one that no process writes and that has no log: its bytes don't change.
bool is_opened_complete(const Database& db);

/// Whether it is one file in one state. The time of the last change of any kind counts too, which no user can set.
bool is_same_state(const struct stat& one, const struct stat& other);

/// Opens a file again that is_opened_complete() held for, without the checks of its content. `checked` is its status
/// then: if it has changed since, it is refused.
Result<Database> open_again(const std::string& path, const struct stat& checked);

/// True while a tracer is writing `path`.
bool is_being_written(const std::string& path);

/// The lock that a writer holds for its lifetime. It is on the write-ahead log, since closing a descriptor of the
/// database itself would drop SQLite's own locks on it. Empty if another process holds it.
UniqueFd lock_writer(const std::string& path);

}  // namespace stalltrace::store
