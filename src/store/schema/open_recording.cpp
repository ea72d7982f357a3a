// SPDX-License-Identifier: Apache-2.0
#include "store/schema/open_recording.h"

#include <chrono>
#include <thread>
#include <utility>

#include "store/schema/known_schema.h"
#include "store/schema/schema.h"
#include "store/sqlite/open.h"

namespace stalltrace::store {
namespace {

/// Errors do not name the file.
Result<Database> open_checked(const std::string& path, ReaderKind kind, int64_t deadline_ns) {
  ST_ASSIGN(Database db, open_file(path, kind, deadline_ns));
  ST_TRY(check_schema(db));
  if (kind == ReaderKind::kSubcommand) {
    ST_TRY(check_known_schema(db));
  }
  return db;
}

Result<Database> open_once(const std::string& path, const std::string& name, ReaderKind kind, int64_t deadline_ns) {
  ST_TRY(check_file(path, name));
  auto db = open_checked(path, kind, deadline_ns);
  return db ? std::move(db) : with_context(name, std::move(db.error()));
}

/// Errors do not name the file.
Status attach_checked(Database& db, const std::string& path) {
  ST_TRY(attach_file(db, path));
  auto checked = check_known_schema(db, "input");
  if (!checked) {
    static_cast<void>(db.execute("DETACH input"));
  }
  return checked;
}

}  // namespace

Result<Database> open_for_reading(const std::string& path, ReaderKind kind, int64_t deadline_ns) {
  return open_for_reading(path, path, kind, deadline_ns);
}

Result<Database> open_for_reading(const std::string& path, const std::string& name, ReaderKind kind,
                                  int64_t deadline_ns) {
  // A writer may create or remove a log between this check and SQLite's: check again.
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    auto opened = open_once(path, name, kind, deadline_ns);
    if (opened || attempt == kAttempts) {
      return opened;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Status attach_for_reading(Database& db, const std::string& path) {
  ST_TRY(check_file(path, path));
  Status attached = attach_checked(db, path);
  return attached ? std::move(attached) : with_context(path, std::move(attached.error()));
}

}  // namespace stalltrace::store
