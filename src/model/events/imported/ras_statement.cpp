// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/ras_statement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 8> kStates{"unstated", "init",   "running",      "finalize",
                                                  "abort",    "nocomm", "unresponsive", "dead"};
constexpr size_t kLongestHost = 64;
constexpr size_t kLongestName = 32;
constexpr size_t kMostOperations = 12;

/// One word without blanks.
std::string word(std::string_view text, size_t longest) {
  std::string out(text.substr(0, longest));
  std::ranges::replace_if(
      out, [](char c) { return c <= ' ' || c > '~'; }, '?');
  return out;
}

template <typename Number>
bool read_number(std::string_view text, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

template <typename Number>
bool read_count(std::string_view text, Number& number) {
  return read_number(text, number) && number >= 0;
}

bool read_field(std::string_view key, std::string_view value, RasStatement& out) {
  if (key == "comm") {
    return value.starts_with("0x") && read_number(value.substr(2), out.hash, 16);
  }
  if (key == "host") {
    out.host = value;
    return true;
  }
  if (key == "state") {
    const auto state = value_with_text<RasState>(kStates, value);
    out.state = state.value_or(RasState::kNotStated);
    return state.has_value();
  }
  return key == "nranks"        ? read_count(value, out.nranks)
         : key == "rank"        ? read_count(value, out.rank.emplace())
         : key == "members"     ? read_count(value, out.members)
         : key == "pid"         ? read_count(value, out.pid)
         : key == "gpu"         ? read_count(value, out.gpu.emplace())
         : key == "init_error"  ? read_count(value, out.init_error)
         : key == "async_error" ? read_count(value, out.async_error)
                                : false;
}

}  // namespace

std::string_view to_text(RasState state) { return kStates[static_cast<size_t>(state)]; }

std::string ras_text(const RasStatement& statement) {
  std::string text = statement.hash == 0 ? std::string("process")
                                         : fmt::format("comm 0x{:x} nranks {}", statement.hash, statement.nranks);
  text += statement.whole_job ? " job" : "";
  if (statement.rank) {
    text += fmt::format(" rank {}", *statement.rank);
  } else if (statement.hash != 0) {
    text += fmt::format(" members {}", statement.members);
  }
  if (!statement.host.empty()) {
    text += " host " + word(statement.host, kLongestHost);
  }
  if (statement.pid > 0) {
    text += fmt::format(" pid {}", statement.pid);
  }
  if (statement.gpu) {
    text += fmt::format(" gpu {}", *statement.gpu);
  }
  if (statement.state != RasState::kNotStated) {
    text += fmt::format(" state {}", to_text(statement.state));
  }
  if (statement.init_error != 0) {
    text += fmt::format(" init_error {}", statement.init_error);
  }
  if (statement.async_error != 0) {
    text += fmt::format(" async_error {}", statement.async_error);
  }
  if (!statement.launched.empty()) {
    text += " launched";
    for (size_t i = 0; i < std::min(statement.launched.size(), kMostOperations); ++i) {
      text += fmt::format(" {} {}", word(statement.launched[i].first, kLongestName), statement.launched[i].second);
    }
  }
  return text;
}

std::optional<RasStatement> ras_statement_from_text(std::string_view text) {
  const std::vector<std::string_view> fields = split_fields(text);
  if (fields.empty() || (fields[0] != "comm" && fields[0] != "process")) {
    return std::nullopt;
  }
  RasStatement out;
  size_t at = fields[0] == "process" ? 1 : 0;
  while (at < fields.size() && fields[at] != "launched") {
    if (fields[at] == "job") {
      out.whole_job = true;
      ++at;
      continue;
    }
    if (at + 1 >= fields.size() || !read_field(fields[at], fields[at + 1], out)) {
      return std::nullopt;
    }
    at += 2;
  }
  for (++at; at < fields.size(); at += 2) {
    uint64_t count = 0;
    if (at + 1 >= fields.size() || out.launched.size() == kMostOperations || !read_number(fields[at + 1], count)) {
      return std::nullopt;
    }
    out.launched.emplace_back(fields[at], count);
  }
  return out;
}

}  // namespace stalltrace
