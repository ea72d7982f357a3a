// SPDX-License-Identifier: Apache-2.0
// Redaction of command lines before they leave their process, or ours: passwords, keys and tokens become "***". The
// tables list the arguments that hold one. Used by the plugin and all of src/: works in place and allocates nothing.
//
// It recognises an argument by its name (--password X, --api-key=X, WANDB_API_KEY=X, {"token": "X"}, ?sig=X,
// "Authorization: Bearer X"), a URL's user:password@, and tokens by their prefix. It does not recognise a secret
// without a name (`wandb login X`, `mysql -pX`). In doubt it hides more: --sort-key X is hidden, and so is all of an
// argument after its name.
#pragma once

#include <stddef.h>
#include <string.h>

namespace stalltrace::redaction {

enum class Where {
  kWord,      // a word of the name; words end at - _ . and before a capital after a lower-case letter
  kLastWord,  // the last one
  kEnding,    // the end of a word: dbpassword
};
enum class Value {
  kWhole,       // hidden
  kAfterColon,  // only the password of user:password
  kTwoWords,    // two words ("Bearer X"), where nothing marks the end of the argument
};

struct Name {
  const char* word;
  Where where;
  Value value = Value::kWhole;
};

inline constexpr Name kNames[] = {
    {"password", Where::kEnding},
    {"passwd", Where::kEnding},
    {"passphrase", Where::kEnding},
    {"secret", Where::kEnding},
    {"secrets", Where::kWord},
    {"pass", Where::kLastWord},
    {"pwd", Where::kLastWord},
    {"token", Where::kLastWord},
    {"key", Where::kLastWord},
    {"apikey", Where::kEnding},
    {"accesskey", Where::kEnding},
    {"secretkey", Where::kEnding},
    {"privatekey", Where::kEnding},
    {"authkey", Where::kEnding},
    {"authtoken", Where::kEnding},
    {"accesstoken", Where::kEnding},
    {"credential", Where::kWord},
    {"credentials", Where::kWord},
    {"auth", Where::kLastWord},
    {"jwt", Where::kLastWord},
    {"sig", Where::kLastWord},
    {"signature", Where::kLastWord},
    {"authorization", Where::kWord, Value::kTwoWords},
    {"cookie", Where::kWord, Value::kTwoWords},
};

/// Complete names of options with user:password, from curl and wget.
inline constexpr Name kUserOptions[] = {
    {"-u", Where::kWord, Value::kAfterColon},
    {"--user", Where::kWord, Value::kAfterColon},
    {"--proxy-user", Where::kWord, Value::kAfterColon},
};

/// Prefixes of tokens. Each token has a digit, and is longer than kShortestToken.
inline constexpr const char* kTokenBeginnings[] = {"hf_",    "ghp_", "gho_",  "ghu_",  "ghs_",   "github_pat_",
                                                   "glpat-", "sk-",  "xoxb-", "xoxp-", "nvapi-", "eyJ"};
inline constexpr size_t kShortestToken = 20;
inline constexpr char kHidden[] = "***";

struct Span {
  size_t begin = 0;
  size_t end = 0;  // empty: none
};

constexpr bool is_small(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_name(char c) {
  return is_small(c) || is_capital(c) || is_digit(c) || c == '_' || c == '-' || c == '.';
}
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
constexpr bool is_quote(char c) { return c == '"' || c == '\''; }
constexpr char lower(char c) { return is_capital(c) ? static_cast<char>(c - 'A' + 'a') : c; }

class Scanner {
 public:
  /// Arguments end at '\0' if the text has one, else at blanks.
  Scanner(const char* text, size_t size)
      : text_(text), size_(size), separated_(size > 1 && memchr(text, '\0', size - 1) != nullptr) {}

  /// The first secret that begins at `from` or later; `before` is the preceding character.
  Span next(size_t from, char before) const {
    for (size_t at = from; at < size_;) {
      const char previous = at == from ? before : text_[at - 1];
      if (matches(at, "://", 3)) {
        if (const Span found = in_url(at); found.end > found.begin) {
          return found;
        }
        at += 3;
        continue;
      }
      if (!is_name(text_[at]) || is_name(previous)) {
        ++at;
        continue;
      }
      size_t end = at;
      while (end < size_ && is_name(text_[end])) {
        ++end;
      }
      if (is_token(at, end)) {
        return {at, end};
      }
      if (const Span found = after_name(at, end, previous == '\0'); found.end > found.begin) {
        return found;
      }
      at = end;
    }
    return {};
  }

 private:
  [[nodiscard]] char at(size_t index) const { return index < size_ ? text_[index] : '\0'; }
  [[nodiscard]] bool matches(size_t index, const char* word, size_t length) const {
    return size_ - index >= length && memcmp(text_ + index, word, length) == 0;
  }

  [[nodiscard]] bool is_token(size_t begin, size_t end) const {
    bool digit = false;
    for (size_t i = begin; i < end; ++i) {
      digit = digit || is_digit(text_[i]);
    }
    for (const char* beginning : kTokenBeginnings) {
      if (digit && end - begin >= kShortestToken && matches(begin, beginning, strlen(beginning))) {
        return true;
      }
    }
    return false;
  }

  /// Searches from "://" on: user:password@ or, for the web, anything@.
  [[nodiscard]] Span in_url(size_t scheme_end) const {
    const size_t begin = scheme_end + 3;
    size_t sign = 0;
    size_t colon = 0;
    size_t end = begin;
    bool in_host = true;
    bool port = true;
    for (; end < size_ && text_[end] != '\0' && !is_blank(text_[end]) && !is_quote(text_[end]); ++end) {
      const char c = text_[end];
      if (in_host && (c == '/' || c == '?' || c == '#')) {
        in_host = false;  // or in a password that is not escaped correctly
      }
      if (in_host && colon == 0 && c == ':') {
        colon = end;
      } else if (in_host && colon != 0 && !is_digit(c) && c != '@') {
        port = false;
      }
      if (c == '@' && (in_host || (sign == 0 && colon != 0 && !port))) {
        sign = end;
      }
    }
    if (sign == 0) {
      return {};
    }
    const bool web = scheme_end >= 4 && (matches(scheme_end - 4, "http", 4) || matches(scheme_end - 4, "ttps", 4));
    if (colon != 0 && colon < sign) {
      return {colon + 1, sign};
    }
    return web ? Span{begin, sign} : Span{};
  }

  [[nodiscard]] bool word_is(size_t begin, size_t end, const char* word, bool ending) const {
    const size_t length = strlen(word);
    if (end - begin < length || (!ending && end - begin != length)) {
      return false;
    }
    for (size_t i = 0; i < length; ++i) {
      if (lower(text_[end - length + i]) != word[i]) {
        return false;
      }
    }
    return true;
  }

  /// The table row for the name; null if there is none.
  [[nodiscard]] const Name* find(size_t begin, size_t end) const {
    for (const Name& row : kUserOptions) {
      if (end - begin == strlen(row.word) && matches(begin, row.word, end - begin)) {
        return &row;
      }
    }
    for (size_t word = begin; word < end;) {
      size_t stop = word;
      while (stop < end && text_[stop] != '-' && text_[stop] != '_' && text_[stop] != '.' &&
             (stop == word || !is_capital(text_[stop]) || !is_small(text_[stop - 1]))) {
        ++stop;
      }
      for (const Name& row : kNames) {
        if ((row.where != Where::kLastWord || stop == end) &&
            word_is(word, stop, row.word, row.where == Where::kEnding)) {
          return &row;
        }
      }
      word = stop < end && (text_[stop] == '-' || text_[stop] == '_' || text_[stop] == '.') ? stop + 1 : stop;
    }
    return nullptr;
  }

  [[nodiscard]] Span after_name(size_t begin, size_t end, bool begins_argument) const {
    const Name* row = find(begin, end);
    if (row == nullptr) {
      return {};
    }
    const bool option = text_[begin] == '-';
    size_t value = is_quote(at(end)) ? end + 1 : end;  // {"token": "X"}
    const size_t gap = value;
    while (value < size_ && is_blank(text_[value])) {
      ++value;
    }
    const char sign = at(value);
    if ((sign == '=' || sign == ':') && (value == gap || sign == ':')) {
      ++value;
      while (sign == ':' && value < size_ && is_blank(text_[value])) {
        ++value;
      }
      return of_value(*row, value, begins_argument && separated_);
    }
    if (!option || gap != end || end >= size_ || (text_[end] != '\0' && !is_blank(text_[end]))) {
      return {};
    }
    const bool own_argument = text_[end] == '\0';
    value = own_argument ? end + 1 : value;
    return at(value) == '-' && at(value + 1) == '-' ? Span{} : of_value(*row, value, own_argument);
  }

  [[nodiscard]] Span of_value(const Name& row, size_t begin, bool to_end_of_argument) const {
    const char quote = is_quote(at(begin)) ? at(begin) : '\0';
    begin += quote != '\0' ? 1 : 0;
    size_t end = begin;
    int words = row.value == Value::kTwoWords && !separated_ ? 2 : 1;
    const bool rest = to_end_of_argument || (row.value == Value::kTwoWords && separated_);
    for (; end < size_ && text_[end] != '\0'; ++end) {
      const char c = text_[end];
      if (quote != '\0' ? c == quote : !rest && (is_quote(c) || c == '&')) {
        break;
      }
      if (quote == '\0' && !rest && is_blank(c) && --words == 0) {
        break;
      }
    }
    if (row.value == Value::kAfterColon) {
      const void* colon = memchr(text_ + begin, ':', end - begin);
      return colon == nullptr ? Span{} : Span{static_cast<size_t>(static_cast<const char*>(colon) - text_) + 1, end};
    }
    return {begin, end};
  }

  const char* text_;
  size_t size_;
  bool separated_;
};

/// Redacts a command line in place; arguments are separated by '\0', as in /proc/PID/cmdline, or else by blanks.
/// Returns the new size, which is never larger. Idempotent.
inline size_t redact_command_line(char* text, size_t size) {
  size_t put = 0;
  size_t from = 0;
  char before = '\0';
  const Scanner scanner(text, size);
  while (from < size) {
    const Span secret = scanner.next(from, before);
    const bool found = secret.end > secret.begin;
    const size_t until = found ? secret.begin : size;
    memmove(text + put, text + from, until - from);
    put += until - from;
    if (!found) {
      break;
    }
    const size_t length = secret.end - secret.begin;
    before = text[secret.end - 1];
    const size_t stars = length < sizeof(kHidden) - 1 ? length : sizeof(kHidden) - 1;
    memcpy(text + put, kHidden, stars);
    put += stars;
    from = secret.end;
  }
  return put;
}

}  // namespace stalltrace::redaction
