// SPDX-License-Identifier: Apache-2.0
// Parsing and formatting of user-facing text: durations, sizes, numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace {

/// An ASCII digit, whatever the locale.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "500ms", "20s", "2m", "1h", "250us" to nanoseconds. A bare number, a negative one or an overflow is an error.
Result<int64_t> parse_duration_ns(std::string_view text);
/// "500m", "2g", "64k", "4096" (bytes) to bytes; binary multiples.
Result<int64_t> parse_size_bytes(std::string_view text);
/// Parses the whole of `text` as a decimal integer.
Result<int64_t> parse_integer(std::string_view text);

/// "5.12 s", "37 ms", "12 us": three significant digits, for display only.
std::string format_duration(int64_t duration_ns);
/// "1.5 GiB"
std::string format_size(int64_t size_bytes);

/// Makes text safe for one line on a terminal: replaces by '?' control characters (C0, DEL, and C1, which xterm obeys
/// in UTF-8 too), characters that change the text direction or are invisible (U+202E, U+2066, U+200B and the like), and
/// every byte that is not UTF-8. Applied where text is laid out: tables, reports, notes, errors.
std::string printable(std::string_view text);
/// Escapes such characters in JSON as \uXXXX. `json` is valid JSON in UTF-8, where they occur only inside strings.
std::string escape_in_json(std::string_view json);

std::vector<std::string_view> split(std::string_view text, char separator);
/// The parts of `text` between runs of white space.
std::vector<std::string_view> split_fields(std::string_view text);
/// "1 rank", "2 ranks"
std::string count_of(int64_t n, std::string_view thing);
std::string_view trim(std::string_view text);
/// "b.log" of "/a/b.log"; points into `path`.
constexpr std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }
/// The beginning of a text of at most `most` bytes, with "..." if it was longer; no character is cut in two.
std::string cut_text(std::string_view text, size_t most);
/// With a capital first letter, if it is one of a to z.
std::string capitalised(std::string text);

}  // namespace stalltrace
