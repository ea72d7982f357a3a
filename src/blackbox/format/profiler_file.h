// SPDX-License-Identifier: Apache-2.0
// One profiler file on disk (docs/profiler_file.md): the positions of its parts, and copies of its bytes. The file
// belongs to another user and may change, shrink or hold wrong numbers at any moment: it is never mapped, only copied
// with pread, and no number in it is used before it is checked against the file's size. Internal to blackbox/.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/handle.h"
#include "base/result.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::blackbox {

class ProfilerFile {
 public:
  /// Errors: not a plain file, not a profiler file, another version or byte order, shorter than its header says.
  static Result<ProfilerFile> open(const std::string& path);
  /// The same for an open file; `path` is its name in errors.
  static Result<ProfilerFile> adopt(UniqueFd fd, const std::string& path);

  /// The header at the time of open(): the constant fields, and the positions of the parts.
  [[nodiscard]] const st_box_header& layout() const { return layout_; }
  /// The current header. Use only the fields that the writer changes.
  [[nodiscard]] Result<st_box_header> header() const;
  /// True while the writing process lives on this host.
  [[nodiscard]] bool has_writer() const { return writer().has_value(); }
  [[nodiscard]] std::optional<pid_t> writer() const;
  /// True for a process that is exiting or a zombie. It keeps its locks until the kernel has freed its memory, which
  /// takes seconds where much of it is pinned.
  static bool is_ending(pid_t pid);
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The file's user.
  [[nodiscard]] uid_t owner() const { return owner_; }

  /// Copies entries [first, first + out.size()) of a part that begins at `part_offset`. An error when the file has
  /// become shorter.
  template <typename Entry>
  Status copy(uint64_t part_offset, uint64_t first, std::span<Entry> out) const {
    return copy_bytes(part_offset + first * sizeof(Entry), std::as_writable_bytes(out));
  }

 private:
  ProfilerFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Status copy_bytes(uint64_t offset, std::span<std::byte> out) const;
  [[nodiscard]] Status check() const;

  std::string path_;
  UniqueFd fd_;
  st_box_header layout_{};
  uint64_t file_bytes_ = 0;
  uid_t owner_ = 0;
};

}  // namespace stalltrace::blackbox
