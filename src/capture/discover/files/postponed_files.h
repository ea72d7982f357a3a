// SPDX-License-Identifier: Apache-2.0
// Mappings whose files can't be looked at now, kept until they can: the kernel reports a mapping only once. A file that
// could not be read is left alone for longer each time, and a file system that did not answer for a while. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "capture/discover/files/file_key.h"
#include "capture/discover/files/library_reader.h"

namespace stalltrace::capture {

class PostponedFiles {
 public:
  static constexpr int64_t kFirstNs = 30 * kNsPerSecond;
  static constexpr int kMostDoublings = 5;  // 16 minutes
  static constexpr int64_t kSilentNs = 30 * kNsPerSecond;
  static constexpr size_t kMostOfUser = 16384;
  static constexpr size_t kMostAtOnce = 256;

  /// A file could not be read. Returns until when it is left alone (CLOCK_MONOTONIC).
  int64_t failed(const FileKey& key, int64_t now_ns);
  /// It was not tried, because of other files: it is left alone for as long as a silent file system.
  void held(const FileKey& key, int64_t now_ns);
  void succeeded(const FileKey& key) { left_alone_.erase(key); }
  /// The file system that the file lies on did not answer. It is left alone for this user only: what was opened at the
  /// mapping's address may have been another file by then, on a file system of the user's own.
  void was_silent(const FileKey& key, int64_t now_ns);
  /// Until when a file is left alone; nullopt: it need not be.
  [[nodiscard]] std::optional<int64_t> left_alone_until(const FileKey& key, int64_t now_ns) const;

  /// Keeps a mapping until then. False if its user has too many.
  bool add(LibraryReader::Request request, int64_t until_ns);
  /// Those whose time has come, at most kMostAtOnce.
  std::vector<LibraryReader::Request> take_due(int64_t now_ns);
  [[nodiscard]] size_t size() const { return waiting_.size(); }

 private:
  struct LeftAlone {
    int failures = 0;
    int64_t until_ns = 0;
  };
  using UsersDevice = std::tuple<uint32_t, uint32_t, uid_t>;
  LeftAlone& entry_of(const FileKey& key, int64_t now_ns);
  std::map<FileKey, LeftAlone> left_alone_;
  std::map<UsersDevice, int64_t> silent_;                   // until when
  std::multimap<int64_t, LibraryReader::Request> waiting_;  // by when
  std::map<uid_t, size_t> waiting_of_;
};

}  // namespace stalltrace::capture
