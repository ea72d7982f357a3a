// SPDX-License-Identifier: Apache-2.0
// A file as a stream of zstd, piece by piece.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/handle.h"
#include "base/result.h"

struct ZSTD_CCtx_s;

namespace stalltrace::serve {

class CompressedFile {
 public:
  static Result<std::shared_ptr<CompressedFile>> open(UniqueFd file);

  /// Of the file, when it was opened. Bytes that it has beyond are not read.
  [[nodiscard]] int64_t size_bytes() const { return size_bytes_; }
  /// About 64 to 256 KiB; empty at the end. An error if the file became shorter.
  Result<std::string> next();

  ~CompressedFile();
  CompressedFile(const CompressedFile&) = delete;
  CompressedFile& operator=(const CompressedFile&) = delete;

 private:
  CompressedFile(UniqueFd file, int64_t size_bytes);

  UniqueFd file_;
  int64_t size_bytes_;
  int64_t read_bytes_ = 0;
  bool ended_ = false;
  ZSTD_CCtx_s* stream_;
};

}  // namespace stalltrace::serve
