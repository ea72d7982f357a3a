// SPDX-License-Identifier: Apache-2.0
#include "blackbox/decode/values.h"

#include <algorithm>

namespace stalltrace::blackbox {
namespace {

constexpr int32_t kMostRanks = 1 << 24;

}  // namespace

std::optional<int32_t> rank_of(int32_t rank) {
  return rank >= 0 && rank < kMostRanks ? std::optional(rank) : std::nullopt;
}

std::optional<int64_t> clock_offset_of(const st_box_header& header) {
  const st_box_clock_anchor* newest = nullptr;
  for (const st_box_clock_anchor& anchor : header.anchors) {
    const bool sane = anchor.monotonic_ns != 0 && anchor.monotonic_ns < kLatestTime &&
                      anchor.realtime_ns >= anchor.monotonic_ns && anchor.realtime_ns < 2 * kLatestTime;
    if (sane && (newest == nullptr || anchor.monotonic_ns > newest->monotonic_ns)) {
      newest = &anchor;
    }
  }
  return newest == nullptr ? std::nullopt
                           : std::optional(static_cast<int64_t>(newest->realtime_ns - newest->monotonic_ns));
}

std::optional<int64_t> to_utc(uint64_t monotonic_ns, int64_t clock_offset_ns) {
  return monotonic_ns == 0 || monotonic_ns >= kLatestTime
             ? std::nullopt
             : std::optional(static_cast<int64_t>(monotonic_ns) + clock_offset_ns);
}

uint64_t to_monotonic(int64_t utc_ns, int64_t clock_offset_ns) {
  return static_cast<uint64_t>(std::max<int64_t>(utc_ns - clock_offset_ns, 0));
}

}  // namespace stalltrace::blackbox
