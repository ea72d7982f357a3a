// SPDX-License-Identifier: Apache-2.0
// The recordings of a source. As many as the limit of open files allows stay open; the others are opened each time that
// they are read. Internal to store/.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "store/read/file_tables.h"
#include "store/sqlite/sqlite.h"

namespace stalltrace::store {

/// Used by one thread at a time.
class OpenFiles {
 public:
  /// Raises the soft limit of open files as far as needed and allowed.
  static OpenFiles for_reading(size_t files);

  /// A file while it is read.
  class Use {
   public:
    explicit Use(Database& kept) : db_(&kept) {}
    explicit Use(Database&& opened) : own_(std::move(opened)) {}
    [[nodiscard]] Database& db() { return db_ != nullptr ? *db_ : own_; }

   private:
    Database own_;
    Database* db_ = nullptr;
  };

  /// A file that was opened and checked.
  struct Opened {
    std::string path;
    Database db;
    bool complete = false;
    struct stat status {};
    FileTables tables;
  };
  /// On any thread. Errors: no recording.
  static Result<Opened> open(const std::string& path);
  /// Takes the next file. Errors: one that is not complete and must stay open, where no more may be.
  Result<Use> add(Opened&& opened);
  Result<Use> add(const std::string& path);
  /// Errors: a file that was replaced or changed since add().
  Result<Use> use(size_t file);

  [[nodiscard]] size_t size() const { return files_.size(); }
  [[nodiscard]] const std::string& path(size_t file) const { return files_[file].path; }
  /// True if no process writes it and it has no log: it needs no transaction.
  [[nodiscard]] bool is_complete(size_t file) const { return files_[file].complete; }
  /// True if the table certainly has no rows there.
  [[nodiscard]] bool is_empty(size_t file, std::string_view table) const { return files_[file].tables.is_empty(table); }
  /// A number that files with the same declarations share.
  [[nodiscard]] size_t schema(size_t file) const { return files_[file].schema; }
  /// True if each of `files` complete files may have another descriptor open at the same time.
  [[nodiscard]] bool have_room_for(size_t files) const { return files <= room_ - used_; }
  /// The work so far no longer counts against the limits of a connection.
  void restart_guards();

 private:
  struct File {
    std::string path;
    Database kept;  // null: opened for each use
    bool complete = false;
    struct stat status {};
    FileTables tables;
    size_t schema = 0;
  };
  explicit OpenFiles(size_t room) : room_(room) {}

  std::deque<File> files_;                 // a deque, because open files must not move
  size_t room_;                            // descriptors that files may hold
  size_t used_ = 0;                        // of them
  std::map<std::string, size_t> schemas_;  // by declarations
};

}  // namespace stalltrace::store
