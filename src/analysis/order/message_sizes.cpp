// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/message_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "analysis/order/call_order.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kLongestQuote = 300;

struct Sizes {
  int64_t sent = 0;
  int64_t expected = 0;
  bool by_receiver = false;  // the process that warns expects the message; else it sends it
};

/// The number after `mark`, which is removed with all before it.
std::optional<int64_t> number_after(std::string_view mark, std::string_view& text) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(at + mark.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

struct Form {
  std::string_view what;
  std::string_view sent;
  std::string_view expected;
  bool by_receiver = false;
};

std::optional<Sizes> sizes_in(std::string_view text) {
  constexpr std::array kForms{Form{"message truncated : ", "receiving ", "instead of ", true},
                              Form{"collective mismatch error", "local size ", "remote size "},
                              Form{"collective mismatch error", "local size ", "remote "}};
  for (const Form& form : kForms) {
    std::string_view rest = text.substr(std::min(text.find(form.what), text.size()));
    const std::optional<int64_t> sent = number_after(form.sent, rest);
    const std::optional<int64_t> expected = sent ? number_after(form.expected, rest) : std::nullopt;
    if (expected && *sent > *expected) {
      return Sizes{*sent, *expected, form.by_receiver};
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::optional<Finding>> judge_message_sizes(EventSource& source) {
  std::optional<LogLine> first;
  Sizes sizes;
  int64_t warnings = 0;
  ST_TRY(source.log_lines({}, [&](const LogLine& row) {
    const std::optional<Sizes> found = row.kind == LogKind::kWarning ? sizes_in(row.text) : std::nullopt;
    if (!found) {
      return;
    }
    ++warnings;
    if (!first || row.timestamp_ns < first->timestamp_ns) {
      first = row;
      sizes = *found;
    }
  }));
  if (!first) {
    return std::nullopt;
  }
  const std::string who = first->rank ? fmt::format("rank {}", *first->rank) : fmt::format("pid {}", first->pid);
  Finding finding{
      .cause = Cause::kMismatchedCollective, .severity = Severity::kCritical, .confidence = kOutsideConfidence};
  finding.collectives_affected = 1;
  finding.window = {first->timestamp_ns, first->timestamp_ns};
  finding.summary =
      sizes.by_receiver
          ? fmt::format("Ranks entered calls of different sizes: {} expects a message of {} bytes, and gets one of {}.",
                        who, sizes.expected, sizes.sent)
          : fmt::format(
                "Ranks entered calls of different sizes: {} sends a message of {} bytes, and its receiver "
                "expects {}.",
                who, sizes.sent, sizes.expected);
  finding.evidence.push_back({"log_line", warnings, first->text.substr(0, kLongestQuote), {}});
  finding.remedy =
      "compare the code of the ranks: shapes that depend on the rank or on its data, a collective that one rank "
      "skipped or made twice just before; then NCCL_PROTO and NCCL_ALGO, which must be the same on all ranks";
  return finding;
}

}  // namespace stalltrace::analysis
