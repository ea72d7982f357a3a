// SPDX-License-Identifier: Apache-2.0
// The lines of a text file of any size, in one buffer of fixed size.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::import {

struct Line {
  std::string_view text;   // without "\n" and "\r\n"; valid until the next call
  int64_t number = 0;      // from 1
  bool terminated = true;  // false: the file ends in it
  bool cut = false;        // longer than LineReader::kLongest: the rest was skipped
};

class LineReader {
 public:
  static constexpr size_t kLongest = size_t{64} << 10;

  /// Fails if it is no readable regular file. It ends where about `most_bytes` were read. Where it begins, at `from`, a
  /// line may be cut.
  static Result<LineReader> open(const std::string& path, uint64_t most_bytes = std::numeric_limits<uint64_t>::max(),
                                 uint64_t from = 0);

  /// None at the end of the file, or where it can't be read any further (`failed`).
  std::optional<Line> next();
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  LineReader(UniqueFd fd, uint64_t most_bytes) : fd_(std::move(fd)), bytes_left_(most_bytes) {
    buffer_.resize(kBufferBytes);
  }
  bool fill();
  size_t read_at(size_t offset);

  static constexpr size_t kBufferBytes = size_t{256} << 10;
  UniqueFd fd_;
  uint64_t bytes_left_;
  std::string buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t number_ = 0;
  bool at_end_ = false;
  bool failed_ = false;
};

/// Removes ANSI colours and other escape sequences; `scratch` keeps the result if there were any.
std::string_view without_escapes(std::string_view line, std::string& scratch);

/// Hands each line on, with its text without escape sequences. `note`: gets a sentence where the file, at `path`, could
/// not be read to its end. Returns the number of the last line.
int64_t take_lines(LineReader& lines, const std::string& path, const std::function<void(const std::string&)>& note,
                   const std::function<void(const Line& line, std::string_view text)>& take);

}  // namespace stalltrace::import
