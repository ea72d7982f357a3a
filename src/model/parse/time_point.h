// SPDX-License-Identifier: Apache-2.0
// A point in time as users type it: a UTC time, or an offset from the first collective of the recordings.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/time_window.h"

namespace stalltrace {

/// "2026-01-31T02:47:00Z", "2026-01-31T02:47:00.5Z", "2026-01-31 02:47:00" (UTC) or "+2s".
Result<TimePoint> parse_time_point(std::string_view text);

}  // namespace stalltrace
