// SPDX-License-Identifier: Apache-2.0
// Checked numbers of a profiler file. A file belongs to its user: every number in it may be wrong, so that each passes
// through one of these functions before it gets into a row. A number that is impossible is unknown. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "model/events.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::blackbox {

/// Times from here on are invalid: 73 years after the host's start. CLOCK_MONOTONIC, ns.
inline constexpr uint64_t kLatestTime = 1ULL << 61;

/// Whose rows are made, and on which clock.
struct Owner {
  NodeId node_id = 0;
  int32_t pid = 0;
  int64_t clock_offset_ns = 0;  // UTC minus CLOCK_MONOTONIC
};

/// A rank; none for a number that no rank has.
std::optional<int32_t> rank_of(int32_t rank);

/// UTC minus CLOCK_MONOTONIC in ns, by the file's newest valid clock anchor; none where no anchor is valid.
std::optional<int64_t> clock_offset_of(const st_box_header& header);

/// A CLOCK_MONOTONIC time in UTC; none for 0 and for invalid times.
std::optional<int64_t> to_utc(uint64_t monotonic_ns, int64_t clock_offset_ns);

/// A UTC time on the file's CLOCK_MONOTONIC; 0 for times before that clock's start.
uint64_t to_monotonic(int64_t utc_ns, int64_t clock_offset_ns);

}  // namespace stalltrace::blackbox
