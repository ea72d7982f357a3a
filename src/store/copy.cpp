// SPDX-License-Identifier: Apache-2.0
#include "store/copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file.h"
#include "base/files/own_folder.h"
#include "store/recording_state.h"
#include "store/schema/open_recording.h"
#include "store/sqlite/open.h"

namespace stalltrace::store {
namespace {

bool has_log(const std::string& path) {
  struct stat status {};
  return ::stat((path + "-wal").c_str(), &status) == 0 && status.st_size > 0;
}

/// Copies page by page. What was committed before is in it, whatever a writer does at the same time.
Status copy_pages(Database& from, Database& to) {
  sqlite3_backup* backup = sqlite3_backup_init(to.get(), "main", from.get(), "main");
  if (backup == nullptr) {
    return fail_sqlite(to.get(), "copy the recording");
  }
  sqlite3_backup_step(backup, -1);
  return sqlite3_backup_finish(backup) == SQLITE_OK ? Status() : Status(fail_sqlite(to.get(), "copy the recording"));
}

}  // namespace

Result<UniqueFd> open_copy(const std::string& path, const std::string& folder) {
  ST_TRY(check_recording(path));
  if (!is_being_written(path) && !has_log(path)) {
    return open_regular(path);
  }
  if (folder.empty()) {
    return fail(path + ": it is being written, and there is no folder for a copy");
  }
  ST_ASSIGN(Database from, open_for_reading(path));
  const std::string name = fmt::format("{}/{}.db", folder, random_letters(12));
  UniqueFd file(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) {
    return fail_errno("copy the recording", errno, "set TMPDIR to a folder that can be written");
  }
  const auto copy = [&]() -> Status {
    ST_ASSIGN(Database to, Database::open(name, SQLITE_OPEN_READWRITE));
    ST_TRY(to.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"));
    return copy_pages(from, to);
  };
  const Status copied = copy();
  ::unlink(name.c_str());
  if (!copied) {
    return std::unexpected(copied.error());
  }
  return file;
}

}  // namespace stalltrace::store
