// SPDX-License-Identifier: Apache-2.0
// Whether stalls of one cause come at a rhythm ("every 20th collective") and when they began. Both lead to the code
// that causes them: a logging interval, a checkpoint, a change of the host. Says nothing that chance would show, too.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stalltrace::analysis {

/// A stalled instance of one communicator.
struct RhythmStall {
  int64_t number = 0;   // of the instance
  int64_t from_ns = 0;  // when the others began to wait
  int64_t lost_ns = 0;
};

struct Rhythm {
  std::optional<int64_t> every;      // instances from one stall to the next, 2 or more
  bool about = false;                // `every` varies by up to a tenth, at least by one
  std::optional<int64_t> period_ns;  // with `every`: the median time from one to the next
  std::optional<int64_t> since_ns;   // the first stall, after many instances without one
  int64_t before = 0;                // with `since_ns`: the number of these instances
  int64_t typical_ns = 0;            // median of the lost times
  int64_t worst_ns = 0;
};

/// `stalls` by number, each number once, among the instances `first` to `last`. nullopt if they have neither a rhythm
/// nor a beginning that stalls at random instances would show less often than kRhythmByChance.
std::optional<Rhythm> find_rhythm(std::span<const RhythmStall> stalls, int64_t first, int64_t last);

/// "every 20th collective (980 ms), since 2026-01-31T02:47:00.123456Z, after 412 collectives without; typically 270 ms,
/// at most 310 ms"
std::string rhythm_text(const Rhythm& rhythm);

}  // namespace stalltrace::analysis
