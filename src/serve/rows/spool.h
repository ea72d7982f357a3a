// SPDX-License-Identifier: Apache-2.0
// Answers that are complete before they are sent, and the room that those of one server have together: a client may
// read as slowly as it likes, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::serve {

/// What all answers that are not sent yet may take. Any thread.
class SpoolRoom {
 public:
  explicit SpoolRoom(int64_t most_bytes = int64_t{4} << 30) : most_bytes_(most_bytes) {}
  SpoolRoom(const SpoolRoom&) = delete;
  SpoolRoom& operator=(const SpoolRoom&) = delete;

  [[nodiscard]] int64_t most_bytes() const { return most_bytes_; }
  /// In memory or on the disk. False: others have taken too much.
  [[nodiscard]] bool take(int64_t bytes);
  /// Bytes that were taken go to a disk with `free_bytes`. False: of what was free without answers, less than half
  /// would be left.
  [[nodiscard]] bool take_disk(int64_t bytes, int64_t free_bytes);
  void give_back(int64_t bytes, int64_t disk_bytes);

 private:
  const int64_t most_bytes_;
  std::mutex mutex_;
  int64_t taken_bytes_ = 0;
  int64_t disk_bytes_ = 0;
};

/// Bytes that are written once and then read once. Where they are many, they lie in a file without a name. The room of
/// a piece is free again when the next one is asked for; of a file, if its file system can free a part of it, else once
/// the object is gone. One thread at a time.
class Spool {
 public:
  /// `folder`: for the file; empty: all stay in memory.
  Spool(std::string folder, std::shared_ptr<SpoolRoom> room) : folder_(std::move(folder)), room_(std::move(room)) {}
  ~Spool() { room_->give_back(taken_bytes_, disk_bytes_); }
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// After an error nothing more is to be added.
  Status add(std::string_view bytes);
  static constexpr int kLater = 503;
  /// HTTP's status for the error of add(), if it was about room: kLater, when there may be some, or 507.
  [[nodiscard]] std::optional<int> refused_with() const { return refused_with_; }
  /// Empty at the end.
  Result<std::string> next();

 private:
  Status take_room(int64_t bytes);
  Status write_out();
  Result<std::string> next_of_file();
  /// Of what next() gave last.
  void free_room();

  std::string folder_;
  std::shared_ptr<SpoolRoom> room_;
  int64_t taken_bytes_ = 0;
  std::optional<int> refused_with_;
  std::deque<std::string> kept_;  // pieces: each is freed when it leaves
  size_t kept_bytes_ = 0;
  UniqueFd file_;
  int64_t disk_bytes_ = 0;
  size_t written_bytes_ = 0;
  size_t read_bytes_ = 0;
  int64_t leaving_bytes_ = 0;  // of the piece that next() gave last: they take no room once it has left
};

}  // namespace stalltrace::serve
