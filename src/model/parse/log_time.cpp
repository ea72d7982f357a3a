// SPDX-License-Identifier: Apache-2.0
#include "model/parse/log_time.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <limits>

#include "base/clock.h"
#include "base/text.h"

namespace stalltrace {
namespace {

constexpr int64_t kNsPerDay = int64_t{86'400} * kNsPerSecond;

/// `count` digits at `at`; -1 if there are none.
int digits(std::string_view text, size_t at, size_t count) {
  if (at + count > text.size()) {
    return -1;
  }
  int value = 0;
  for (size_t i = at; i < at + count; ++i) {
    if (!is_digit(text[i])) {
      return -1;
    }
    value = 10 * value + (text[i] - '0');
  }
  return value;
}

std::optional<int64_t> days(int year, int month, int day) {
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || year < 1971 || year > 2095) {
    return std::nullopt;
  }
  return std::chrono::sys_days(date).time_since_epoch().count();
}

int year_of(int64_t time_ns) {
  const std::chrono::sys_days day{std::chrono::days(time_ns / kNsPerDay)};
  return static_cast<int>(std::chrono::year_month_day(day).year());
}

/// No line is from a later day. One more, since lines without an offset can be local time.
int64_t latest_days(const TimeHint& hint) {
  const int64_t latest_ns = hint.latest ? hint.near_ns : hint.latest_ns;
  const int64_t days = latest_ns / kNsPerDay + 1;
  return (hint.latest || latest_ns > 0) && hint.near_ns / kNsPerDay <= days ? days
                                                                            : std::numeric_limits<int64_t>::max();
}

/// The day without its year: the one nearest to the hint that is not too late.
std::optional<int64_t> nearest_days(int month, int day, const TimeHint& hint) {
  std::optional<int64_t> best;
  for (int year = year_of(hint.near_ns) - 1; year <= year_of(hint.near_ns) + 1; ++year) {
    const auto candidate = days(year, month, day);
    const auto away = [&](int64_t one) { return std::abs(one - hint.near_ns / kNsPerDay); };
    if (candidate && *candidate <= latest_days(hint) && (!best || away(*candidate) < away(*best))) {
      best = candidate;
    }
  }
  return best;
}

/// The day that is written before the clock at `clock`.
std::optional<int64_t> day_before(std::string_view text, size_t clock, const TimeHint& hint) {
  if (clock >= 11 && (text[clock - 1] == 'T' || text[clock - 1] == ' ')) {
    const size_t at = clock - 11;
    const bool separated = (text[at + 4] == '-' && text[at + 7] == '-') || (text[at + 4] == '/' && text[at + 7] == '/');
    const int year = digits(text, at, 4);
    const int month = digits(text, at + 5, 2);
    const int day = digits(text, at + 8, 2);
    if (separated && year > 0 && month > 0 && day > 0) {
      return days(year, month, day);
    }
  }
  // glog: "E0505 "; PyTorch leaves out the month's zero.
  for (const size_t month_digits : {size_t{2}, size_t{1}}) {
    const size_t length = month_digits + 4;
    if (clock >= length && text[clock - 1] == ' ' && std::string_view("IWEF").contains(text[clock - length])) {
      const int month = digits(text, clock - length + 1, month_digits);
      const int day = digits(text, clock - 3, 2);
      if (month > 0 && day > 0) {
        return nearest_days(month, day, hint);
      }
    }
  }
  constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (clock >= 7 && text[clock - 1] == ' ' && text[clock - 4] == ' ') {
    const auto* const month = std::ranges::find(kMonths, text.substr(clock - 7, 3));
    const int tens = text[clock - 3] == ' ' ? 0 : digits(text, clock - 3, 1);
    const int ones = digits(text, clock - 2, 1);
    if (month != kMonths.end() && tens >= 0 && ones >= 0) {
      return nearest_days(static_cast<int>(month - kMonths.begin()) + 1, 10 * tens + ones, hint);
    }
  }
  const bool starts_here = clock == 0 || text[clock - 1] == ' ' || text[clock - 1] == '[' || text[clock - 1] == '(' ||
                           text[clock - 1] == ':';
  return starts_here ? std::optional(hint.near_ns / kNsPerDay) : std::nullopt;
}

/// ".123456789" or ",123" at `at`, which it passes.
int64_t take_fraction_ns(std::string_view text, size_t& at) {
  if (at + 1 >= text.size() || (text[at] != '.' && text[at] != ',') || !is_digit(text[at + 1])) {
    return 0;
  }
  int64_t value = 0;
  int64_t unit = kNsPerSecond;
  for (++at; at < text.size() && is_digit(text[at]); ++at) {
    unit /= 10;
    value += unit * (text[at] - '0');
  }
  return value;
}

/// "+02:00", "-0700" at `at`, in ns.
int64_t offset_ns(std::string_view text, size_t at) {
  if (at >= text.size() || (text[at] != '+' && text[at] != '-')) {
    return 0;
  }
  const int hours = digits(text, at + 1, 2);
  const size_t minutes_at = at + 3 < text.size() && text[at + 3] == ':' ? at + 4 : at + 3;
  const int minutes = digits(text, minutes_at, 2);
  if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59) {
    return 0;
  }
  const int64_t size = (int64_t{hours} * 3600 + int64_t{minutes} * 60) * kNsPerSecond;
  return text[at] == '+' ? size : -size;
}

}  // namespace

std::optional<int64_t> find_time(std::string_view text, const TimeHint& hint) {
  for (size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':', colon + 1)) {
    if (colon < 2 || colon + 5 >= text.size() || text[colon + 3] != ':' || (colon >= 3 && is_digit(text[colon - 3]))) {
      continue;
    }
    const int hours = digits(text, colon - 2, 2);
    const int minutes = digits(text, colon + 1, 2);
    const int seconds = digits(text, colon + 4, 2);
    const bool longer = colon + 6 < text.size() && (is_digit(text[colon + 6]) || text[colon + 6] == ':');
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || seconds < 0 || seconds > 60 || longer) {
      continue;
    }
    const auto day = day_before(text, colon - 2, hint);
    if (!day) {
      continue;
    }
    size_t at = colon + 6;
    const int64_t fraction = take_fraction_ns(text, at);
    const int64_t clock_ns = (int64_t{hours} * 3600 + int64_t{minutes} * 60 + seconds) * kNsPerSecond + fraction;
    return *day * kNsPerDay + clock_ns - offset_ns(text, at);
  }
  return std::nullopt;
}

}  // namespace stalltrace
