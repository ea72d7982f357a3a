// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_tests/table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "base/text.h"

namespace stalltrace::import {
namespace {

using Fields = std::vector<std::string_view>;

constexpr size_t kLongestLine = 2048;  // nccl-tests' own limit
constexpr int64_t kMostBytes = int64_t{1} << 53;
constexpr double kMostWrong = 9e15;
constexpr double kLargestNumber = 1e15;
constexpr size_t kBlanksOfAGroup = 24;  // where out of place was left out, 32 blanks stand for it

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<double> measure_in(std::string_view text) {
  const std::optional<double> value = number_in<double>(text);
  return value && std::isfinite(*value) && *value >= 0 && *value <= kLargestNumber ? value : std::nullopt;
}

std::optional<int64_t> size_in(std::string_view text) {
  const std::optional<int64_t> value = number_in<int64_t>(text);
  return value && *value >= 0 && *value <= kMostBytes ? value : std::nullopt;
}

/// What stands behind the first '#' if nothing, a blank or a launcher's prefix is before it; else empty.
std::string_view comment_in(std::string_view line) {
  const size_t at = line.find("# ");
  if (at == std::string_view::npos || (at > 0 && std::string_view(" \t:>]").find(line[at - 1]) == std::string::npos)) {
    return {};
  }
  return trim(line.substr(at + 2));
}

bool is_datatype(std::string_view text) {
  constexpr std::array<std::string_view, 14> kDatatypes{"int8",   "uint8",  "int32",    "uint32",  "int64",
                                                        "uint64", "half",   "float",    "double",  "bfloat16",
                                                        "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"};
  return std::ranges::find(kDatatypes, text) != kDatatypes.end();
}

std::optional<BenchmarkColumns> header_in(std::string_view comment) {
  const Fields fields = split_fields(comment);
  if (fields.size() < 8 || fields[0] != "size" || fields[1] != "count" || fields[2] != "type") {
    return std::nullopt;
  }
  const auto is_time = [](std::string_view name) { return name == "time" || name == "cputime"; };
  const auto first = std::ranges::find_if(fields, is_time);
  const auto second = first == fields.end() ? first : std::find_if(first + 1, fields.end(), is_time);
  if (second == fields.end() || second - first < 3) {
    return std::nullopt;
  }
  BenchmarkColumns columns;
  columns.has_root = std::ranges::find(fields, "root") != fields.end();
  columns.timed = fields.back() == "timestamp";
  columns.group.assign(first, second);
  return columns;
}

std::optional<BenchmarkNumbers> numbers_in(std::span<const std::string_view> fields,
                                           const std::vector<std::string>& names) {
  BenchmarkNumbers numbers;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const std::optional<double> value = measure_in(fields[i]);  // of "#wrong" as well, which is printed with %g
    if (!value && fields[i] != "N/A") {
      return std::nullopt;
    }
    if (name == "#wrong" && value) {
      if (*value > kMostWrong) {
        return std::nullopt;
      }
      numbers.wrong = static_cast<int64_t>(*value);
    } else if (name == "time" || name == "cputime") {
      numbers.time_us = value.value_or(-1);
    } else if (name == "algbw") {
      numbers.algbw_gbs = value.value_or(-1);
    } else if (name == "busbw") {
      numbers.busbw_gbs = value.value_or(-1);
    }
  }
  const bool whole = numbers.time_us >= 0 && numbers.algbw_gbs >= 0 && numbers.busbw_gbs >= 0;
  return whole ? std::optional(numbers) : std::nullopt;
}

/// The digits at the end of a field: a prefix may touch them.
std::string_view last_digits(std::string_view field) {
  size_t begin = field.size();
  while (begin > 0 && is_digit(field[begin - 1])) {
    --begin;
  }
  return field.substr(begin);
}

/// The index of the size among the fields: "8388608 2097152 float sum ...".
std::optional<size_t> row_begin(const Fields& fields) {
  for (size_t type = 2; type < fields.size(); ++type) {
    if (is_datatype(fields[type]) && size_in(fields[type - 1]) && !last_digits(fields[type - 2]).empty()) {
      return type - 2;
    }
  }
  return std::nullopt;
}

BenchmarkLine read_row(const Fields& fields, size_t begin, const BenchmarkColumns& columns) {
  BenchmarkRow row;
  const std::optional<int64_t> bytes = size_in(last_digits(fields[begin]));
  row.count = size_in(fields[begin + 1]).value_or(0);
  row.datatype = fields[begin + 2];
  size_t at = begin + 3;
  if (at < fields.size() && !is_digit(fields[at].front()) && fields[at].front() != '-') {
    row.reduce_op = fields[at] == "none" ? std::string_view() : fields[at];
    ++at;
  }
  if (columns.has_root && at < fields.size()) {
    const std::optional<int32_t> root = number_in<int32_t>(fields[at]);
    if (!root) {
      return BrokenRow{};
    }
    row.root = *root >= 0 ? root : std::nullopt;
    ++at;
  }
  const size_t group = columns.group.size();
  const size_t time = columns.timed ? 2 : 0;
  const size_t left = fields.size() - at;
  const std::span<const std::string_view> rest(fields.data() + at, left);
  const bool both = left == 2 * group + time;
  const bool one = left == group + time && at > 0 &&
                   static_cast<size_t>(fields[at].data() - fields[at - 1].data()) >= kBlanksOfAGroup;
  if (!bytes || (!both && !one)) {
    return BrokenRow{};
  }
  row.bytes = *bytes;
  if (both) {
    row.out_of_place = numbers_in(rest.first(group), columns.group);
  }
  row.in_place = numbers_in(rest.subspan(both ? group : 0, group), columns.group);
  if ((both && !row.out_of_place) || !row.in_place) {
    return BrokenRow{};
  }
  if (columns.timed) {
    const std::string_view day = rest[left - 2];
    const std::string_view clock = rest[left - 1];
    row.time = std::string_view(day.data(), static_cast<size_t>(clock.data() + clock.size() - day.data()));
  }
  return row;
}

/// The number behind a word, also behind "word:" as rccl-tests have it.
std::optional<int64_t> number_after(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  std::string_view rest = at == std::string_view::npos ? std::string_view() : text.substr(at + word.size());
  while (!rest.empty() && (rest.front() == ' ' || rest.front() == ':')) {
    rest.remove_prefix(1);
  }
  return size_in(rest.substr(0, rest.find(' ')));
}

std::optional<BenchmarkLine> read_comment(std::string_view comment) {
  if (auto columns = header_in(comment)) {
    return std::move(*columns);
  }
  if (comment.starts_with("nThread")) {
    if (const auto most_bytes = number_after(comment, "maxBytes")) {
      return BenchmarkStart{*most_bytes};
    }
  }
  constexpr std::string_view kStarting = "Collective test starting: ";
  if (comment.starts_with(kStarting)) {
    return BenchmarkName{trim(comment.substr(kStarting.size()))};
  }
  const bool bounds = comment.starts_with("Out of bounds values");
  const bool average = comment.starts_with("Avg bus bandwidth");
  if (bounds || average) {
    return BenchmarkEnd{.failed = comment.find("FAILED") != std::string_view::npos, .last = average};
  }
  if (comment.starts_with("Rank ")) {
    const Fields fields = split_fields(comment);
    const auto on = std::ranges::find(fields, "on");
    const auto rank = fields.size() > 1 ? number_in<int32_t>(fields[1]) : std::nullopt;
    if (rank && *rank >= 0 && fields.end() - on > 2 && on[2] == "device") {
      return BenchmarkRank{*rank, on[1]};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string_view test_name_in(std::string_view text) {
  constexpr std::string_view kEnd = "_perf";
  constexpr std::array<std::string_view, 11> kTests{"all_gather", "all_reduce", "alltoallv", "alltoall",
                                                    "broadcast",  "gather",     "hypercube", "reduce_scatter",
                                                    "reduce",     "scatter",    "sendrecv"};
  for (size_t at = text.find(kEnd); at != std::string_view::npos; at = text.find(kEnd, at + 1)) {
    for (const std::string_view test : kTests) {
      if (at < test.size() || text.substr(at - test.size(), test.size()) != test) {
        continue;
      }
      const size_t begin = at - test.size();
      if (begin == 0 || (text[begin - 1] != '_' && (text[begin - 1] < 'a' || text[begin - 1] > 'z'))) {
        return text.substr(begin, test.size() + kEnd.size());
      }
    }
  }
  return {};
}

BenchmarkLine read_benchmark_line(std::string_view line, const BenchmarkColumns& columns) {
  line = line.substr(0, kLongestLine);
  if (const std::string_view comment = comment_in(line); !comment.empty()) {
    if (auto read = read_comment(comment)) {
      return std::move(*read);
    }
  }
  if (const size_t at = line.find(": Test "); at != std::string_view::npos) {
    const std::string_view what = line.substr(at + 2);
    if (what.starts_with("Test NCCL failure ") || what.starts_with("Test CUDA failure ") ||
        what.starts_with("Test timeout ")) {
      return BenchmarkProblem{trim(what)};
    }
  }
  if (const std::string_view test = test_name_in(line); !test.empty()) {
    return BenchmarkName{test};
  }
  if (line.find("NCCL ") != std::string_view::npos) {
    return {};  // the log has such words, too
  }
  const Fields fields = split_fields(line);
  const std::optional<size_t> begin = row_begin(fields);
  return begin ? read_row(fields, *begin, columns) : BenchmarkLine();
}

bool is_benchmark_line(std::string_view line) {
  const std::string_view comment = comment_in(line.substr(0, kLongestLine));
  const auto read = comment.empty() ? std::nullopt : read_comment(comment);
  return read && (std::holds_alternative<BenchmarkColumns>(*read) || std::holds_alternative<BenchmarkStart>(*read));
}

}  // namespace stalltrace::import
