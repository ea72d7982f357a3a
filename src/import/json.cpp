// SPDX-License-Identifier: Apache-2.0
#include "import/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace stalltrace::import {
namespace {

constexpr int kDeepest = 64;

class Reader {
 public:
  Reader(std::string_view bytes, ValueTree& tree) : bytes_(bytes), tree_(tree) {}

  Result<ValueIndex> read() {
    ST_ASSIGN(const ValueIndex value, read_value(0));
    skip_blanks();
    return at_ == bytes_.size() ? Result<ValueIndex>(value) : refuse("something follows its end");
  }

 private:
  std::unexpected<Error> refuse(std::string_view why) const {
    return fail(fmt::format("offset {}: {}", at_, why), {}, ErrorKind::kCorrupt);
  }

  void skip_blanks() {
    while (at_ < bytes_.size() && std::string_view(" \t\r\n").find(bytes_[at_]) != std::string_view::npos) {
      ++at_;
    }
  }

  bool take(char c) {
    skip_blanks();
    if (at_ >= bytes_.size() || bytes_[at_] != c) {
      return false;
    }
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (!bytes_.substr(at_).starts_with(word)) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  Result<ValueIndex> read_value(int depth) {
    using Kind = ValueTree::Kind;
    if (depth > kDeepest || tree_.full()) {
      return refuse("it is nested too deeply, or holds too many values");
    }
    skip_blanks();
    if (take('{')) {
      return read_dict(depth);
    }
    if (take('[')) {
      return read_list(depth);
    }
    if (at_ < bytes_.size() && bytes_[at_] == '"') {
      ST_ASSIGN(const std::string_view text, read_text());
      return tree_.add_text(text);
    }
    if (take_word("true")) {
      return tree_.add(Kind::kBool, 1);
    }
    if (take_word("false")) {
      return tree_.add(Kind::kBool, 0);
    }
    if (take_word("null")) {
      return tree_.add(Kind::kNone);
    }
    return read_number();
  }

  Result<ValueIndex> read_dict(int depth) {
    const ValueIndex dict = tree_.add_dict();
    if (take('}')) {
      return dict;
    }
    do {
      skip_blanks();
      ST_ASSIGN(const std::string_view key, read_text());
      const ValueIndex name = tree_.add_text(key);
      if (!take(':')) {
        return refuse("a colon is missing");
      }
      ST_ASSIGN(const ValueIndex value, read_value(depth + 1));
      if (!tree_.put(dict, name, value)) {
        return refuse("it holds too many values");
      }
    } while (take(','));
    return take('}') ? Result<ValueIndex>(dict) : refuse("a brace is missing");
  }

  Result<ValueIndex> read_list(int depth) {
    const ValueIndex list = tree_.add_list();
    if (take(']')) {
      return list;
    }
    do {
      ST_ASSIGN(const ValueIndex value, read_value(depth + 1));
      if (!tree_.append(list, value)) {
        return refuse("it holds too many values");
      }
    } while (take(','));
    return take(']') ? Result<ValueIndex>(list) : refuse("a bracket is missing");
  }

  Result<ValueIndex> read_number() {
    const char* begin = bytes_.data() + at_;
    const char* end = bytes_.data() + bytes_.size();
    int64_t integer = 0;
    const auto whole = std::from_chars(begin, end, integer);
    const bool goes_on = whole.ptr != end && (*whole.ptr == '.' || *whole.ptr == 'e' || *whole.ptr == 'E');
    if (whole.ec == std::errc() && !goes_on) {
      at_ += static_cast<size_t>(whole.ptr - begin);
      return tree_.add(ValueTree::Kind::kInteger, integer);
    }
    double real = 0;
    const auto parsed = std::from_chars(begin, end, real);
    if (parsed.ec == std::errc::invalid_argument) {
      return refuse("no value");
    }
    at_ += static_cast<size_t>(parsed.ptr - begin);
    return tree_.add_real(parsed.ec == std::errc() ? real : 0);
  }

  Result<std::string_view> read_text() {
    if (at_ >= bytes_.size() || bytes_[at_] != '"') {
      return refuse("a text is missing");
    }
    const size_t begin = ++at_;
    const size_t end = bytes_.find_first_of("\"\\", begin);
    if (end == std::string_view::npos) {
      return refuse("a text is cut off");
    }
    if (bytes_[end] == '"') {
      at_ = end + 1;
      return bytes_.substr(begin, end - begin);
    }
    return read_escaped();
  }

  /// Of \uXXXX only ASCII is kept: names that are compared have nothing else.
  Result<std::string_view> read_escaped() {
    std::string text;
    while (at_ < bytes_.size() && bytes_[at_] != '"') {
      if (bytes_[at_] != '\\') {
        text += bytes_[at_++];
        continue;
      }
      if (at_ + 1 >= bytes_.size()) {
        break;
      }
      const char c = bytes_[at_ + 1];
      at_ += 2;
      if (c == 'u') {
        unsigned code = '?';
        std::from_chars(bytes_.data() + at_, bytes_.data() + std::min(at_ + 4, bytes_.size()), code, 16);
        at_ = std::min(at_ + 4, bytes_.size());
        text += code < 0x80 ? static_cast<char>(code) : '?';
      } else {
        text += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
    }
    if (at_ >= bytes_.size() || bytes_[at_] != '"') {
      return refuse("a text is cut off");
    }
    ++at_;
    return tree_.keep(std::move(text));
  }

  std::string_view bytes_;
  ValueTree& tree_;
  size_t at_ = 0;
};

}  // namespace

Result<ValueIndex> read_json(std::string_view bytes, ValueTree& tree) { return Reader(bytes, tree).read(); }

size_t end_of_items(std::string_view bytes, std::string_view enclosing) {
  std::string open;  // braces and brackets
  bool in_text = false;
  size_t end = 0;
  for (size_t i = 0; i < bytes.size() && open.size() < size_t{kDeepest}; ++i) {
    const char c = bytes[i];
    if (in_text) {
      i += c == '\\' ? 1 : 0;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      open += c;
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
      end = c == '}' && open == enclosing ? i + 1 : end;
    }
  }
  return end;
}

}  // namespace stalltrace::import
