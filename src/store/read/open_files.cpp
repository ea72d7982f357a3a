// SPDX-License-Identifier: Apache-2.0
#include "store/read/open_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/process/descriptor_limit.h"
#include "store/schema/open_recording.h"
#include "store/sqlite/open.h"

namespace stalltrace::store {
namespace {

constexpr size_t kDescriptorsOfFile = 4;  // SQLite's for file, log and index; the page reader's
constexpr size_t kOtherDescriptors = 64;  // of the process, and of files that are opened for one use, or ahead

}  // namespace

OpenFiles OpenFiles::for_reading(size_t files) {
  const size_t limit = raise_open_files(files * kDescriptorsOfFile + kOtherDescriptors);
  return OpenFiles(limit - std::min(limit, kOtherDescriptors));
}

Result<OpenFiles::Opened> OpenFiles::open(const std::string& path) {
  Opened opened{.path = path};
  ST_ASSIGN(opened.db, open_for_reading(path));
  opened.complete = is_opened_complete(opened.db);
  ::stat(path.c_str(), &opened.status);
  ST_ASSIGN(opened.tables, FileTables::read(opened.db, opened.complete));
  return opened;
}

Result<OpenFiles::Use> OpenFiles::add(const std::string& path) {
  ST_ASSIGN(Opened opened, open(path));
  return add(std::move(opened));
}

Result<OpenFiles::Use> OpenFiles::add(Opened&& opened) {
  const std::string path = opened.path;
  File file{.path = path, .complete = opened.complete, .status = opened.status, .tables = std::move(opened.tables)};
  Database db = std::move(opened.db);
  file.schema = schemas_.try_emplace(file.tables.declarations(), schemas_.size()).first->second;
  file.tables.forget_declarations();
  const size_t needed = file.complete ? 1 : kDescriptorsOfFile;
  if (used_ + needed <= room_) {
    used_ += needed;
    file.kept = std::move(db);
    files_.push_back(std::move(file));
    return Use(files_.back().kept);
  }
  if (!file.complete) {
    return fail(
        fmt::format("{}: it is not complete, and must stay open while {} other recordings are", path, files_.size()),
        "raise the limit of open files (ulimit -n), or merge some of the recordings first");
  }
  files_.push_back(std::move(file));
  return Use(std::move(db));
}

Result<OpenFiles::Use> OpenFiles::use(size_t index) {
  File& file = files_[index];
  if (file.kept.get() != nullptr) {
    return Use(file.kept);
  }
  ST_ASSIGN(Database db, open_again(file.path, file.status));
  return Use(std::move(db));
}

void OpenFiles::restart_guards() {
  for (File& file : files_) {
    file.kept.restart_guard();
  }
}

}  // namespace stalltrace::store
