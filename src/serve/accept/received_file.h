// SPDX-License-Identifier: Apache-2.0
// A file that arrives as a stream of zstd from a host that may send anything.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/result.h"

struct ZSTD_DCtx_s;

namespace stalltrace::serve {

class ReceivedFile {
 public:
  /// Makes the file. `most_bytes`: no more is written, whatever the stream decompresses to.
  static Result<std::unique_ptr<ReceivedFile>> create(const std::string& path, int64_t most_bytes);
  /// The same for an empty file that is open.
  static std::unique_ptr<ReceivedFile> into(UniqueFd file, int64_t most_bytes);
  ~ReceivedFile();
  ReceivedFile(const ReceivedFile&) = delete;
  ReceivedFile& operator=(const ReceivedFile&) = delete;

  /// Lowers the limit to the size that the sender announced, which the file then has to have. An error if it is larger
  /// than the limit.
  Status announce(int64_t bytes);
  /// Keeps `compressed` and decompresses about a MiB. True: there is more to do, call it again, also without bytes: a
  /// few bytes can stand for a file of any size. Errors: not zstd, bytes after its end, more than the limit, no room on
  /// the disk.
  Result<bool> add(std::string_view compressed);
  /// An error if the stream has not come to its end.
  [[nodiscard]] Status finish() const;
  [[nodiscard]] int64_t size_bytes() const { return size_bytes_; }

 private:
  ReceivedFile(UniqueFd file, int64_t most_bytes);

  UniqueFd file_;
  int64_t most_bytes_;
  std::optional<int64_t> announced_;
  std::string waiting_;  // compressed
  int64_t size_bytes_ = 0;
  bool ended_ = false;
  std::unique_ptr<ZSTD_DCtx_s, void (*)(ZSTD_DCtx_s*)> stream_;
};

}  // namespace stalltrace::serve
