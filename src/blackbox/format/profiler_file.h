// SPDX-License-Identifier: Apache-2.0
// One profiler file on disk (docs/profiler_file.md), checked: where its parts lie, and bytes copied out of them. The
// file belongs to somebody else and may change, lie or shrink at any moment, so that it is never mapped, only copied
// with pread, and no number in it is used before it is checked against the file's size. Internal to blackbox/.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/handle.h"
#include "base/result.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::blackbox {

class BoxFile {
 public:
  /// Errors: not a plain file, not a profiler file, another version or byte order, shorter than its header says.
  static Result<BoxFile> open(const std::string& path);
  /// The same of an open file; `path` is what errors call it.
  static Result<BoxFile> adopt(UniqueFd fd, const std::string& path);

  /// As it was when the file was opened: what never changes, and where the parts lie.
  [[nodiscard]] const st_box_header& layout() const { return layout_; }
  /// As it is now; only what the writer changes may be taken from it.
  [[nodiscard]] Result<st_box_header> header() const;
  /// True while the process that writes it lives on this host.
  [[nodiscard]] bool has_writer() const;
  /// A process that ends keeps its locks until its memory is given back.
  static bool is_ending(pid_t pid);
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Whose file it is.
  [[nodiscard]] uid_t owner() const { return owner_; }

  /// Copies entries [first, first + out.size()) of a part that begins at `part_offset`. An error when the file has
  /// become shorter.
  template <typename Entry>
  Status copy(uint64_t part_offset, uint64_t first, std::span<Entry> out) const {
    return copy_bytes(part_offset + first * sizeof(Entry), std::as_writable_bytes(out));
  }

 private:
  BoxFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Status copy_bytes(uint64_t offset, std::span<std::byte> out) const;
  [[nodiscard]] Status check() const;

  std::string path_;
  UniqueFd fd_;
  st_box_header layout_{};
  uint64_t file_bytes_ = 0;
  uid_t owner_ = 0;
};

}  // namespace stalltrace::blackbox
