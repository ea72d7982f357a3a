// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/clock.h"

namespace stalltrace {
namespace {

struct Unit {
  std::string_view suffix;
  int64_t factor;
};

constexpr std::array kDurationUnits{
    Unit{"ns", 1},           Unit{"us", kNsPerUs},         Unit{"ms", kNsPerMs},
    Unit{"s", kNsPerSecond}, Unit{"m", 60 * kNsPerSecond}, Unit{"h", 3600 * kNsPerSecond}};
constexpr std::array kSizeUnits{Unit{"", 1}, Unit{"k", 1LL << 10}, Unit{"m", 1LL << 20}, Unit{"g", 1LL << 30},
                                Unit{"t", 1LL << 40}};

/// The characters from ' ' to '~' at the beginning of `text`: nothing in them is replaced anywhere here.
std::string_view plain_begin(std::string_view text) {
  const auto* const end = std::ranges::find_if_not(text, [](char c) { return c >= ' ' && c <= '~'; });
  return text.substr(0, static_cast<size_t>(end - text.begin()));
}

/// The first code point of `text` and its length in UTF-8 (RFC 3629); length 0 if it is invalid.
std::pair<char32_t, size_t> first_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || length > text.size()) {
    return {0, 0};
  }
  char32_t code = length == 1 ? lead : lead & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) {
      return {0, 0};
    }
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[length] || code > 0x10ffff || surrogate ? std::pair<char32_t, size_t>{0, 0}
                                                               : std::pair{code, length};
}

/// Control characters, and Unicode characters that reverse the text direction or have no width: a name that contains
/// them reads as another name.
bool is_treacherous(char32_t code) {
  struct Range {
    char32_t first;
    char32_t last;
  };
  constexpr std::array kRanges{
      Range{0x0, 0x1f},       Range{0x7f, 0x9f},      // C0, DEL, C1
      Range{0xad, 0xad},      Range{0x34f, 0x34f},    // soft hyphen, combining grapheme joiner
      Range{0x61c, 0x61c},    Range{0x115f, 0x1160},  // Arabic letter mark, Hangul fillers
      Range{0x17b4, 0x17b5},  Range{0x180b, 0x180f},  // invisible vowels, Mongolian selectors
      Range{0x200b, 0x200f},  Range{0x2028, 0x202e},  // zero width, marks; line separators, embeddings, overrides
      Range{0x2060, 0x206f},  Range{0x3164, 0x3164},  // joiners, isolates
      Range{0xfe00, 0xfe0f},  Range{0xfeff, 0xfeff},  // variation selectors, byte order mark
      Range{0xffa0, 0xffa0},  Range{0xfff9, 0xfffb},  // annotations
      Range{0xe0000, 0xe0fff}};                       // tags
  return std::ranges::any_of(kRanges, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

/// Parses a non-negative decimal number followed by one of `units`.
template <size_t n>
Result<int64_t> parse_with_unit(std::string_view text, const std::array<Unit, n>& units, std::string_view what,
                                std::string_view example) {
  const auto bad = [&] {
    return fail(fmt::format("'{}' is not a {}", text, what), fmt::format("write it like {}", example),
                ErrorKind::kUsage);
  };
  double number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (code != std::errc{} || !std::isfinite(number) || number < 0) {
    return bad();
  }
  const std::string_view suffix(rest, static_cast<size_t>(text.data() + text.size() - rest));
  for (const Unit& unit : units) {
    if (unit.suffix == suffix) {
      const double value = number * static_cast<double>(unit.factor);
      if (value > 9.0e18) {
        return bad();
      }
      return static_cast<int64_t>(std::llround(value));
    }
  }
  return bad();
}

constexpr std::string_view kBlank = " \t\r\n";

}  // namespace

Result<int64_t> parse_duration_ns(std::string_view text) {
  return parse_with_unit(text, kDurationUnits, "duration", "500ms, 20s or 2m");
}

Result<int64_t> parse_size_bytes(std::string_view text) {
  return parse_with_unit(text, kSizeUnits, "size", "500m or 2g");
}

Result<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || rest != text.data() + text.size()) {
    return fail(fmt::format("'{}' is not a whole number", text), "write digits alone, such as 12", ErrorKind::kUsage);
  }
  return value;
}

std::string format_duration(int64_t duration_ns) {
  const double ns = static_cast<double>(duration_ns);
  const double magnitude = std::fabs(ns);
  constexpr double kRounded = 0.9995;  // of a unit: rounded to three digits, it is one
  if (magnitude >= 120.0 * kNsPerSecond) {
    const double minutes = ns / (60.0 * kNsPerSecond);
    return std::fabs(minutes) < 999.5 ? fmt::format("{:.3g} min", minutes) : fmt::format("{:.0f} min", minutes);
  }
  if (magnitude >= kRounded * kNsPerSecond) {
    return fmt::format("{:.3g} s", ns / kNsPerSecond);
  }
  if (magnitude >= kRounded * kNsPerMs) {
    return fmt::format("{:.3g} ms", ns / kNsPerMs);
  }
  if (magnitude >= kNsPerUs) {
    return fmt::format("{:.3g} us", ns / kNsPerUs);
  }
  return fmt::format("{} ns", duration_ns);
}

std::string format_size(int64_t size_bytes) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(size_bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", size_bytes) : fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string printable(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (true) {
    const std::string_view plain = plain_begin(text);
    line += plain;
    text.remove_prefix(plain.size());
    if (text.empty()) {
      return line;
    }
    const auto [code, length] = first_code_point(text);
    line += length == 0 || is_treacherous(code) ? std::string_view("?") : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
}

std::string escape_in_json(std::string_view json) {
  std::string escaped;
  escaped.reserve(json.size());
  while (true) {
    const std::string_view plain = plain_begin(json);
    escaped += plain;
    json.remove_prefix(plain.size());
    if (json.empty()) {
      return escaped;
    }
    const auto [code, length] = first_code_point(json);
    if (length == 0 || code < 0x20 || !is_treacherous(code)) {  // JSON's own line breaks are layout
      escaped += json.substr(0, std::max<size_t>(length, 1));
    } else if (code < 0x10000) {
      escaped += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      const uint32_t rest = static_cast<uint32_t>(code) - 0x10000;
      escaped += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10U), 0xdc00 + (rest & 0x3ffU));
    }
    json.remove_prefix(std::max<size_t>(length, 1));
  }
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  while (true) {
    const size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) {
      return parts;
    }
    start = end + 1;
  }
}

std::vector<std::string_view> split_fields(std::string_view text) {
  std::vector<std::string_view> fields;
  for (size_t end = 0; true;) {
    const size_t begin = text.find_first_not_of(kBlank, end);
    if (begin == std::string_view::npos) {
      return fields;
    }
    end = std::min(text.find_first_of(kBlank, begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
  }
}

std::string count_of(int64_t n, std::string_view thing) { return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s"); }

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string cut_text(std::string_view text, size_t most) {
  if (text.size() <= most) {
    return std::string(text);
  }
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {  // inside of a character
    --end;
  }
  return std::string(text.substr(0, end)) + "...";
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

}  // namespace stalltrace
