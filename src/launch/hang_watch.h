// SPDX-License-Identifier: Apache-2.0
// Watches the progress of a job. Counts completed collectives while their events pass to a recording, and reports when
// none has completed for too long although some are open. Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "model/events.h"

namespace stalltrace::launch {

struct Progress {
  uint64_t completed = 0;                 // completed collectives so far
  uint64_t open = 0;                      // entered, not complete
  std::optional<int64_t> oldest_open_ns;  // entry of the oldest open collective, UTC
};

/// Forwards every event.
class ProgressSink final : public EventSink {
 public:
  explicit ProgressSink(EventSink& next) : next_(next) {}
  void accept(Event event) override;
  [[nodiscard]] Progress progress() const;
  /// True if any collective has its end from a profiler file.
  [[nodiscard]] bool has_profiler_rows() const { return has_profiler_rows_; }
  /// True if there are calls, all of libraries that load no profiler plugin: neither NCCL's nor RCCL's.
  [[nodiscard]] bool only_other_libraries() const { return calls_others_ && !calls_nccl_; }

 private:
  void count(EventId completed);

  EventSink& next_;
  uint64_t completed_ = 0;
  std::unordered_set<EventId> counted_;  // the newest 16,384: a row may come again when more is known
  std::deque<EventId> counted_order_;
  bool has_profiler_rows_ = false;
  bool calls_nccl_ = false;
  bool calls_others_ = false;
  std::unordered_map<EventId, int64_t> entered_;  // by open collective
  std::set<std::pair<int64_t, EventId>> by_age_;
};

/// Detects that a job stands still: no collective has completed for `limit_ns` while one has been open for as long. As
/// what is known of a hang grows with its length, it is reported again and again: after kAgain times as long, then
/// whenever it has lasted twice as long, but after kLongestPauseNs, or `limit_ns` where that is more, at the latest.
class HangWatch {
 public:
  explicit HangWatch(int64_t limit_ns) : limit_ns_(limit_ns) {}
  enum class News : uint8_t {
    kNone,
    kStandsStill,  // must be explained
    kStillStands,  // must be explained again
    kGoesOn,       // after it was reported to stand still
  };
  News look(const Progress& progress, int64_t now_ns);
  /// The explanation took `took_ns`: the pause until the next one is kPausePerCost times that, at least.
  void explained(int64_t took_ns);
  /// How long the job had stood still at the last call of look(); after kGoesOn, the total.
  [[nodiscard]] int64_t still_ns() const { return still_ns_; }
  static constexpr int64_t kAgain = 10;
  static constexpr int64_t kLongestPauseNs = 120 * kNsPerSecond;
  static constexpr int64_t kPausePerCost = 20;  // 5 % of a core

 private:
  int64_t limit_ns_;
  std::optional<uint64_t> completed_;
  int64_t unchanged_since_ns_ = 0;
  int64_t still_ns_ = 0;
  int64_t next_report_ns_ = limit_ns_;  // in terms of still_ns_
};

}  // namespace stalltrace::launch
