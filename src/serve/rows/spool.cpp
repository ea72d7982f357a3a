// SPDX-License-Identifier: Apache-2.0
#include "serve/rows/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/files/own_folder.h"
#include "base/io/write_all.h"
#include "base/text.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kMostInMemory = 4 << 20;
constexpr size_t kPieceBytes = 256 << 10;
constexpr int kNoRoomStatus = 507;
constexpr std::string_view kMoreRoom = "set TMPDIR on that node to a folder with more room";

}  // namespace

bool SpoolRoom::take(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > most_bytes_ - taken_bytes_) {
    return false;
  }
  taken_bytes_ += bytes;
  return true;
}

bool SpoolRoom::take_disk(int64_t bytes, int64_t free_bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > free_bytes || disk_bytes_ + bytes > free_bytes - bytes) {
    return false;
  }
  disk_bytes_ += bytes;
  return true;
}

void SpoolRoom::give_back(int64_t bytes, int64_t disk_bytes) {
  const std::lock_guard lock(mutex_);
  taken_bytes_ -= bytes;
  disk_bytes_ -= disk_bytes;
}

Status Spool::add(std::string_view bytes) {
  ST_TRY(take_room(static_cast<int64_t>(bytes.size())));
  kept_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (kept_.empty() || kept_.back().size() == kPieceBytes) {
      kept_.emplace_back();
    }
    const std::string_view part = bytes.substr(0, kPieceBytes - kept_.back().size());
    kept_.back() += part;
    bytes.remove_prefix(part.size());
  }
  return kept_bytes_ > kMostInMemory ? write_out() : Status();
}

Status Spool::take_room(int64_t bytes) {
  if (bytes > room_->most_bytes() - taken_bytes_) {
    refused_with_ = kNoRoomStatus;
    return fail(fmt::format("the rows of this answer take more than {}", format_size(room_->most_bytes())),
                "ask for fewer tables, or for a shorter time");
  }
  if (!room_->take(bytes)) {
    refused_with_ = kLater;
    return fail(fmt::format("answers that their clients have not read yet take the {} that all may take",
                            format_size(room_->most_bytes())),
                "ask again later");
  }
  taken_bytes_ += bytes;
  return {};
}

Status Spool::write_out() {
  if (folder_.empty()) {
    return {};
  }
  if (!file_) {
    const std::string name = folder_ + "/" + random_letters(12) + ".rows";
    file_ = UniqueFd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file_) {
      return fail_errno("keep the rows", errno, "set TMPDIR to a folder that can be written");
    }
    ::unlink(name.c_str());
  }
  struct statvfs disk {};
  const auto bytes = static_cast<int64_t>(kept_bytes_);
  const bool known = ::fstatvfs(file_.get(), &disk) == 0;
  const int64_t free_bytes = known ? static_cast<int64_t>(disk.f_bavail * disk.f_frsize) : INT64_MAX;
  if (!room_->take_disk(bytes, free_bytes)) {
    refused_with_ = kNoRoomStatus;
    return fail("the disk has no room for the rows of this answer", std::string(kMoreRoom));
  }
  disk_bytes_ += bytes;  // also where only a part is written: the room was taken
  for (const std::string& piece : kept_) {
    if (!write_all(file_.get(), piece)) {
      refused_with_ = kNoRoomStatus;
      return fail_errno("keep the rows", errno, std::string(kMoreRoom));
    }
  }
  written_bytes_ += std::exchange(kept_bytes_, 0);
  kept_.clear();
  return {};
}

void Spool::free_room() {
  const int64_t bytes = std::exchange(leaving_bytes_, 0);
  taken_bytes_ -= bytes;
  room_->give_back(bytes, 0);
}

Result<std::string> Spool::next() {
  free_room();
  if (read_bytes_ < written_bytes_) {
    return next_of_file();
  }
  if (kept_.empty()) {
    return std::string();
  }
  std::string piece = std::move(kept_.front());
  kept_.pop_front();
  leaving_bytes_ = static_cast<int64_t>(piece.size());
  return piece;
}

Result<std::string> Spool::next_of_file() {
  std::string piece(std::min<size_t>(kPieceBytes, written_bytes_ - read_bytes_), '\0');
  const auto at = static_cast<off_t>(read_bytes_);
  const ssize_t got = ::pread(file_.get(), piece.data(), piece.size(), at);
  if (got <= 0) {
    return fail_errno("read the rows", got < 0 ? errno : EIO);
  }
  piece.resize(static_cast<size_t>(got));
  read_bytes_ += piece.size();
  if (::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, got) == 0) {
    disk_bytes_ -= got;
    room_->give_back(0, got);
    leaving_bytes_ = got;
  }
  return piece;
}

}  // namespace stalltrace::serve
