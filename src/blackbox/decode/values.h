// SPDX-License-Identifier: Apache-2.0
// Validates numbers of a profiler file. A file belongs to its user, and any number in it may be wrong, so each passes
// through one of these functions before it gets into a row. An impossible number becomes unknown. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "model/events.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::blackbox {

/// Times from here on are invalid: 73 years after the host's start (CLOCK_MONOTONIC, ns).
inline constexpr uint64_t kLatestTime = 1ULL << 61;

/// The owner of the rows, and their clock.
struct Owner {
  NodeId node_id = 0;
  int32_t pid = 0;
  int64_t clock_offset_ns = 0;  // UTC minus CLOCK_MONOTONIC
};

/// A rank; nullopt for an invalid number.
std::optional<int32_t> rank_of(int32_t rank);

/// UTC minus CLOCK_MONOTONIC in ns, from the file's newest valid clock anchor; nullopt where no anchor is valid.
std::optional<int64_t> clock_offset_of(const st_box_header& header);

/// Converts a CLOCK_MONOTONIC time to UTC; nullopt for 0 and for invalid times.
std::optional<int64_t> to_utc(uint64_t monotonic_ns, int64_t clock_offset_ns);

/// Converts a UTC time to the file's CLOCK_MONOTONIC; 0 for times before that clock's start.
uint64_t to_monotonic(int64_t utc_ns, int64_t clock_offset_ns);

}  // namespace stalltrace::blackbox
