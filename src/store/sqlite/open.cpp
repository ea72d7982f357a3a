// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/open.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "base/files/sqlite_magic.h"
#include "base/read_at.h"
#include "store/sqlite/file_numbers.h"

namespace stalltrace::store {
namespace {

constexpr const char* kGiveRecording = "give a file made by 'stalltrace trace'";
constexpr const char* kGiveReadable =
    "give a file made by 'stalltrace trace', or a log or dump that 'stalltrace import --help' lists";

/// Empty if there is none; anything but a regular file (a link, a FIFO that would block) counts as none.
UniqueFd open_log(const std::string& path) {
  auto fd = open_regular(path + "-wal", O_NOFOLLOW);
  return fd ? std::move(*fd) : UniqueFd();
}

bool has_log(const std::string& path) { return file_size(path + "-wal") > 0; }

/// A file and what errors call it.
struct NamedFile {
  const std::string& path;
  const std::string& name;
};

/// Compares SQLite's header (section 1.3 of its file format) with the size of the file.
Status check_header(const NamedFile& file, int64_t size) {
  const auto& [path, name] = file;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));  // it may be a FIFO by now
  if (!fd) {
    return fail_errno(name, errno,
                      errno == EMFILE || errno == ENFILE ? "raise the limit of open files (ulimit -n), or give fewer"
                                                         : "run as a user who may read it");
  }
  std::array<uint8_t, 100> header{};
  const ssize_t got = read_at(fd.get(), header.data(), header.size(), 0);
  if (got < 0) {
    return fail_errno(name, errno, "look for errors of the disk (dmesg), and copy it again from where it was made");
  }
  if (got < static_cast<ssize_t>(kSqliteMagic.size()) ||
      std::memcmp(header.data(), kSqliteMagic.data(), kSqliteMagic.size()) != 0) {
    return fail(name + ": not a recording (not an SQLite database)", kGiveReadable, ErrorKind::kCorrupt);
  }
  const uint32_t page_field = big_endian(&header[16], 2);
  const int64_t page_bytes = page_field == 1 ? 65536 : page_field;
  const int64_t expected = page_bytes * big_endian(&header[28], 4);
  if (got < static_cast<ssize_t>(header.size()) || (size < expected && !has_log(path))) {
    return fail(fmt::format("{}: cut short: {} of {} bytes are there", name, size, expected),
                "copy it again from where it was made", ErrorKind::kCorrupt);
  }
  return {};
}

/// How SQLite must open a file.
struct ReadingTarget {
  std::string uri;
  /// `PRAGMA locking_mode` must first be EXCLUSIVE, which keeps the log's index in memory.
  bool exclusive = false;
};

/// The file has passed check_file.
ReadingTarget reading_target(const std::string& path) {
  if (is_being_written(path)) {
    return ReadingTarget{file_uri(path, "mode=ro"), false};
  }
  // No writer: without locks the log needs no shared memory file. A rollback journal can only remain from before the
  // first row or after the last one, and is ignored.
  return has_log(path) ? ReadingTarget{file_uri(path, "mode=ro&vfs=unix-none"), true}
                       : ReadingTarget{file_uri(path, "mode=ro&immutable=1"), false};
}

}  // namespace

int64_t file_size(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_size : 0;
}

Status check_file(const std::string& path, const std::string& name) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? Status(fail(name + ": no such file", kGiveRecording, ErrorKind::kNotFound))
                           : Status(fail_errno(name, errno, kGiveRecording));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(fmt::format("{}: {}, not a recording", name, S_ISDIR(status.st_mode) ? "a folder" : "not a file"),
                kGiveRecording, ErrorKind::kCorrupt);
  }
  if (status.st_size == 0) {
    return fail(name + ": empty, not a recording", kGiveRecording, ErrorKind::kCorrupt);
  }
  // A file that this process is writing must not be opened and closed here: that would drop SQLite's locks on it.
  return is_being_written(path) ? Status() : check_header({path, name}, status.st_size);
}

Result<Database> open_file(const std::string& path, ReaderKind kind, int64_t deadline_ns) {
  const ReadingTarget target = reading_target(path);
  ST_ASSIGN(Database db, Database::open(target.uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI));
  ST_TRY(db.guard({.kind = kind, .path = path, .deadline_ns = deadline_ns},
                  fmt::format("PRAGMA locking_mode = {}; PRAGMA query_only = ON; PRAGMA cache_size = -8192",
                              target.exclusive ? "EXCLUSIVE" : "NORMAL")));
  return db;
}

Status attach_file(Database& db, const std::string& path) {
  const ReadingTarget target = reading_target(path);
  return db.guard({.kind = ReaderKind::kMerge, .path = path},
                  fmt::format("PRAGMA locking_mode = {}; ATTACH {} AS input", target.exclusive ? "EXCLUSIVE" : "NORMAL",
                              quote_text(target.uri)));
}

UniqueFd lock_writer(const std::string& path) {
  UniqueFd fd = open_log(path);
  constexpr int kAttempts = 10;  // a reader that probes the lock holds it for microseconds
  for (int attempt = 0; fd && attempt < kAttempts; ++attempt) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      return fd;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return UniqueFd();
}

bool is_being_written(const std::string& path) {
  const UniqueFd fd = open_log(path);
  return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool is_opened_complete(const Database& db) {
  const char* file = sqlite3_db_filename(db.get(), "main");
  return file != nullptr && sqlite3_uri_boolean(file, "immutable", 0) != 0;
}

bool is_same_state(const struct stat& one, const struct stat& other) {
  const auto same = [](const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; };
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_size == other.st_size &&
         same(one.st_mtim, other.st_mtim) && same(one.st_ctim, other.st_ctim);
}

Result<Database> open_again(const std::string& path, const struct stat& checked) {
  struct stat now {};
  if (::stat(path.c_str(), &now) != 0) {
    return fail_errno(path, errno, kGiveRecording);
  }
  if (!is_same_state(now, checked) || has_log(path)) {
    return fail(path + ": it was replaced or changed while it was read", "run the command again");
  }
  auto db = Database::open(file_uri(path, "mode=ro&immutable=1"), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
  if (!db) {
    return with_context(path, std::move(db.error()));
  }
  ST_TRY(
      db->guard({.kind = ReaderKind::kSubcommand, .path = path}, "PRAGMA query_only = ON; PRAGMA cache_size = -8192"));
  return db;
}

}  // namespace stalltrace::store
