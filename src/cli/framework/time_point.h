// SPDX-License-Identifier: Apache-2.0
// A moment as people type it: a UTC time, or a distance from the start of the recording.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/framework/flag.h"

namespace stalltrace::cli {

struct TimePoint {
  int64_t ns = 0;  // UTC, or since the start
  bool from_start = false;

  [[nodiscard]] int64_t utc_ns(int64_t start_ns) const { return from_start ? start_ns + ns : ns; }
};

/// "2026-01-31T02:47:00Z", "2026-01-31T02:47:00.5Z", "2026-01-31 02:47:00" (UTC) or "+2s".
Result<TimePoint> parse_time_point(std::string_view text);

Flag time_point_flag(std::string name, std::string help, std::optional<TimePoint>* target);

}  // namespace stalltrace::cli
