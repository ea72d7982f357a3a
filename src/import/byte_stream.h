// SPDX-License-Identifier: Apache-2.0
// The bytes of a file of any size, plain or compressed with gzip (RFC 1952), a part at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::import {

class ByteStream {
 public:
  /// Of a compressed file: more is not read, since few bytes can stand for very many.
  static constexpr uint64_t kMostBytes = uint64_t{64} << 30;

  /// Fails if it is no readable regular file.
  static Result<ByteStream> open(const std::string& path);
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  ~ByteStream();

  /// Up to `most` of the uncompressed bytes; 0 at the end, or where they can't be read any further (`problem`).
  size_t read(char* out, size_t most);
  /// Why the bytes end before the file does; empty: they don't.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Inflater;
  explicit ByteStream(UniqueFd fd);
  size_t read_file(char* out, size_t most);
  size_t inflate(char* out, size_t most);
  bool fill();

  UniqueFd fd_;
  std::unique_ptr<Inflater> inflater_;  // of a compressed file
  std::string begin_;                   // read to see whether it is compressed
  uint64_t delivered_ = 0;
  std::string problem_;
};

/// The first `most` uncompressed bytes; fewer if the file has no more, or is damaged there.
Result<std::string> read_uncompressed_head(const std::string& path, size_t most);

}  // namespace stalltrace::import
