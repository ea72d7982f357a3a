// SPDX-License-Identifier: Apache-2.0
// Times that launchers, loggers and NCCL itself write before a line.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stalltrace {

/// The first time in the text, in UTC ns: "2026-05-05T10:00:00.123456789Z" (also with an offset, a blank for the T, a
/// comma for the point, slashes), "E0505 10:00:00.123456" (glog), "10:00:00.123" and "May  5 10:00:00". What it leaves
/// out (year, date) is taken from the hint; without an offset it is taken for UTC.
struct TimeHint {
  int64_t near_ns = 0;
  bool latest = false;    // `near_ns` is when the file was last written: no line is later than that
  int64_t latest_ns = 0;  // when it was, where `near_ns` is another time; not used if that is later. 0: not known
};
std::optional<int64_t> find_time(std::string_view text, const TimeHint& hint);

}  // namespace stalltrace
