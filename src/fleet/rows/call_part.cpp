// SPDX-License-Identifier: Apache-2.0
#include "fleet/rows/call_part.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace stalltrace::fleet {
namespace {

constexpr int64_t kPrecisionNs = kNsPerSecond / 10;

double calls_in(std::span<const RecordedCalls> recordings, TimeRange part) {
  double calls = 0;
  for (const RecordedCalls& recorded : recordings) {
    const TimeRange shared{std::max(part.from_ns, recorded.range.from_ns), std::min(part.to_ns, recorded.range.to_ns)};
    const auto length = static_cast<double>(std::max<int64_t>(recorded.range.length(), 1));
    calls += static_cast<double>(recorded.calls) * static_cast<double>(shared.length()) / length;
  }
  return calls;
}

/// Saturates at the ends of time.
TimeRange widened(TimeRange range, int64_t by_ns) {
  constexpr TimeRange kAll;
  return {range.from_ns < kAll.from_ns + by_ns ? kAll.from_ns : range.from_ns - by_ns,
          range.to_ns > kAll.to_ns - by_ns ? kAll.to_ns : range.to_ns + by_ns};
}

}  // namespace

Result<std::optional<TimeRange>> part_to_read(std::span<const RecordedCalls> recordings, const TimeWindow& window,
                                              int64_t most) {
  double calls = 0;  // of thousands of hosts, each of which may claim anything
  TimeRange all{kForever, 0};
  for (const RecordedCalls& recorded : recordings) {
    calls += static_cast<double>(recorded.calls);
    all = {std::min(all.from_ns, recorded.range.from_ns), std::max(all.to_ns, recorded.range.to_ns)};
  }
  if (calls <= static_cast<double>(most)) {
    return std::optional<TimeRange>();
  }
  if ((window.from && window.from->from_start) || (window.to && window.to->from_start)) {
    return fail(
        fmt::format("{:.0f} collectives are too many to be read at once, so that the beginning, from which --from "
                    "and --to count, is not read",
                    calls),
        "give --from and --to as times of day, or fewer nodes", ErrorKind::kUsage);
  }
  const TimeRange wanted = window.empty() ? TimeRange{.from_ns = all.to_ns} : window.at(0);
  int64_t fits_ns = 0;
  for (int64_t too_wide_ns = std::max<int64_t>(all.length(), 1); too_wide_ns - fits_ns > kPrecisionNs;) {
    const int64_t middle_ns = fits_ns + (too_wide_ns - fits_ns) / 2;
    (calls_in(recordings, widened(wanted, middle_ns)) <= static_cast<double>(most) ? fits_ns : too_wide_ns) = middle_ns;
  }
  return std::optional(widened(wanted, fits_ns));
}

}  // namespace stalltrace::fleet
