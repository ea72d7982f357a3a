// SPDX-License-Identifier: Apache-2.0
#include "import/chrome_trace/json_stream.h"

#include <fmt/format.h>

#include <algorithm>

namespace stalltrace::import {
namespace {

constexpr size_t kLongestWord = 64;

bool is_blank(int c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool ends_word(int c) { return c < 0 || is_blank(c) || c == ',' || c == '}' || c == ']' || c == ':' || c == '"'; }

}  // namespace

JsonStream::JsonStream(ByteStream bytes) : bytes_(std::move(bytes)), buffer_(kBufferBytes, '\0') {}

/// The next byte, or -1 at the end.
int JsonStream::peek() {
  if (at_ == end_) {
    before_ += end_;
    at_ = 0;
    end_ = bytes_.read(buffer_.data(), buffer_.size());
    if (end_ == 0) {
      return -1;
    }
  }
  return static_cast<unsigned char>(buffer_[at_]);
}

JsonStream::Token JsonStream::broken(std::string_view why) {
  if (problem_.empty()) {
    problem_ = bytes_.problem().empty() ? fmt::format("offset {}: {}", before_ + at_, why) : bytes_.problem();
  }
  return Token::kBroken;
}

JsonStream::Token JsonStream::close(Token token, char open) {
  if (depth_ == 0 || open_[depth_ - 1] != open) {
    return broken("a bracket closes nothing");
  }
  --depth_;
  key_follows_ = depth_ > 0 && open_[depth_ - 1] == '{';
  return token;
}

JsonStream::Token JsonStream::next() {
  text_.clear();
  if (!problem_.empty()) {
    return Token::kBroken;
  }
  if (started_ && depth_ == 0) {
    return Token::kEnd;
  }
  int c = peek();
  while (is_blank(c) || c == ',') {
    ++at_;
    c = peek();
  }
  if (c < 0) {
    return broken("it ends too early");
  }
  if (c == '}' || c == ']') {
    ++at_;
    return c == '}' ? close(Token::kEndObject, '{') : close(Token::kEndArray, '[');
  }
  if (key_follows_) {
    if (c != '"') {
      return broken("a name is missing");
    }
    if (read_text() == Token::kBroken) {
      return Token::kBroken;
    }
    c = peek();
    while (is_blank(c)) {
      ++at_;
      c = peek();
    }
    if (c != ':') {
      return broken("a colon is missing");
    }
    ++at_;
    key_follows_ = false;
    return Token::kKey;
  }
  started_ = true;
  key_follows_ = depth_ > 0 && open_[depth_ - 1] == '{';
  if (c == '{' || c == '[') {
    if (depth_ == kDeepest) {
      return broken("it is nested too deeply");
    }
    open_[depth_++] = static_cast<char>(c);
    ++at_;
    key_follows_ = c == '{';
    return c == '{' ? Token::kBeginObject : Token::kBeginArray;
  }
  return c == '"' ? read_text() : read_word();
}

JsonStream::Token JsonStream::read_text() {
  ++at_;
  while (true) {
    if (peek() < 0) {
      return broken("a text does not end");
    }
    const size_t from = at_;
    while (at_ < end_ && buffer_[at_] != '"' && buffer_[at_] != '\\') {
      ++at_;
    }
    if (text_.size() < kLongestText) {
      text_.append(buffer_, from, std::min(at_ - from, kLongestText - text_.size()));
    }
    if (at_ == end_) {
      continue;
    }
    const bool ends = buffer_[at_] == '"';
    ++at_;
    if (ends) {
      return Token::kText;
    }
    take_escape();
  }
}

void JsonStream::take_escape() {
  const int c = peek();
  if (c < 0) {
    return;
  }
  ++at_;
  char stands_for = static_cast<char>(c);
  if (c == 'u') {
    for (int i = 0; i < 4 && peek() >= 0 && peek() != '"'; ++i) {
      ++at_;
    }
    stands_for = '?';
  } else if (c == 'n' || c == 't' || c == 'r' || c == 'b' || c == 'f') {
    stands_for = ' ';
  }
  if (text_.size() < kLongestText) {
    text_ += stands_for;
  }
}

JsonStream::Token JsonStream::read_word() {
  while (!ends_word(peek())) {
    if (text_.size() == kLongestWord) {
      return broken("this is no value");
    }
    text_ += buffer_[at_++];
  }
  const bool value = !text_.empty() &&
                     (text_[0] == '-' || (text_[0] >= '0' && text_[0] <= '9') || text_ == "true" || text_ == "false" ||
                      text_ == "null" || text_ == "NaN" || text_ == "nan" || text_ == "Infinity" || text_ == "inf");
  return value ? Token::kNumber : broken("this is no value");
}

void JsonStream::skip() { skip_rest(next()); }

void JsonStream::skip_rest(Token first) {
  if (first != Token::kBeginObject && first != Token::kBeginArray) {
    return;
  }
  const int outside = depth_ - 1;
  while (depth_ > outside) {
    const Token token = next();
    if (token == Token::kBroken || token == Token::kEnd) {
      return;
    }
  }
}

}  // namespace stalltrace::import
