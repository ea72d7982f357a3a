// SPDX-License-Identifier: Apache-2.0
#include "model/parse/time_point.h"

#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <optional>
#include <regex>
#include <string>

#include "base/clock.h"
#include "base/text.h"

namespace stalltrace {
namespace {

/// Converts digits after the decimal point to nanoseconds: "5" is 500,000,000.
int64_t fraction_ns(std::string digits) {
  digits.resize(9, '0');
  return std::stoll(digits);
}

/// A year outside of the range of nanoseconds gives the first or the last time in the range: nothing is recorded beyond
/// it.
std::optional<int64_t> parse_utc(const std::string& text) {
  static const std::regex kForm(R"((\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z?)");
  std::smatch part;
  if (!std::regex_match(text, part, kForm)) {
    return std::nullopt;
  }
  const auto number = [&](size_t index) { return std::stoi(part[index].str()); };
  const std::chrono::year_month_day day{std::chrono::year(number(1)),
                                        std::chrono::month(static_cast<unsigned>(number(2))),
                                        std::chrono::day(static_cast<unsigned>(number(3)))};
  if (!day.ok() || number(4) > 23 || number(5) > 59 || number(6) > 60) {
    return std::nullopt;
  }
  const auto seconds = std::chrono::sys_days(day).time_since_epoch() + std::chrono::hours(number(4)) +
                       std::chrono::minutes(number(5)) + std::chrono::seconds(number(6));
  const int64_t whole = std::chrono::duration_cast<std::chrono::seconds>(seconds).count();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / kNsPerSecond - 1;  // April 2262
  return whole < 0 ? 0 : whole > kMost ? kForever : whole * kNsPerSecond + fraction_ns(part[7].str());
}

}  // namespace

Result<TimePoint> parse_time_point(std::string_view text) {
  if (text.starts_with('+')) {
    ST_ASSIGN(const int64_t distance, parse_duration_ns(text.substr(1)));
    return TimePoint{.ns = distance, .from_start = true};
  }
  if (const auto utc = parse_utc(std::string(text))) {
    return TimePoint{.ns = *utc, .from_start = false};
  }
  return fail(fmt::format("'{}' is not a time", text),
              "write it like 2026-01-31T02:47:00Z (UTC), or +2s from the first collective", ErrorKind::kUsage);
}

}  // namespace stalltrace
