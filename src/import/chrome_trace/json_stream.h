// SPDX-License-Identifier: Apache-2.0
// JSON of any size, a token at a time, in memory of fixed size. It takes what writers of traces get wrong: a comma
// before a closing bracket, NaN and Infinity, control characters in texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "import/byte_stream.h"

namespace stalltrace::import {

class JsonStream {
 public:
  enum class Token : uint8_t {
    kBeginObject,
    kEndObject,
    kBeginArray,
    kEndArray,
    kKey,
    kText,
    kNumber,  // or true, false, null, NaN: what stands there is in text()
    kEnd,     // of the outermost value
    kBroken,  // no token follows: problem() says why
  };
  /// Of a longer text the beginning is kept.
  static constexpr size_t kLongestText = 1024;
  static constexpr int kDeepest = 256;

  explicit JsonStream(ByteStream bytes);

  Token next();
  /// Of a key, text or number, without escapes of more than one byte ('?' stands for them). Valid until the next call.
  [[nodiscard]] std::string_view text() const { return text_; }
  /// Passes over the value that begins with the next token.
  void skip();
  /// Passes over the rest of a value whose first token was `first`.
  void skip_rest(Token first);
  [[nodiscard]] int depth() const { return depth_; }
  /// After kBroken: "offset 17: ..."
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  int peek();
  Token broken(std::string_view why);
  Token close(Token token, char open);
  Token read_text();
  Token read_word();
  void take_escape();

  static constexpr size_t kBufferBytes = size_t{256} << 10;
  ByteStream bytes_;
  std::string buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  uint64_t before_ = 0;  // bytes before the buffer
  std::string text_;
  std::string problem_;
  char open_[kDeepest] = {};
  int depth_ = 0;
  bool key_follows_ = false;
  bool started_ = false;
};

}  // namespace stalltrace::import
