// SPDX-License-Identifier: Apache-2.0
// Does a job still get on? Counts the collectives that complete while their events pass by on the way to a recording,
// and says when none has completed for too long although some are open. Single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "model/events.h"

namespace stalltrace::launch {

struct Progress {
  uint64_t completed = 0;                 // collectives so far
  uint64_t open = 0;                      // entered, not complete
  std::optional<int64_t> oldest_open_ns;  // when the one open for longest was entered, UTC
};

/// Passes every event on.
class ProgressSink final : public EventSink {
 public:
  explicit ProgressSink(EventSink& next) : next_(next) {}
  void accept(Event event) override;
  [[nodiscard]] Progress progress() const;
  /// Whether any collective has its end from a profiler file.
  [[nodiscard]] bool has_profiler_rows() const { return has_profiler_rows_; }

 private:
  EventSink& next_;
  uint64_t completed_ = 0;
  bool has_profiler_rows_ = false;
  std::unordered_map<EventId, int64_t> entered_;  // the open ones
  std::set<std::pair<int64_t, EventId>> by_age_;
};

/// When to speak of a hang: no collective has completed for `limit_ns` while one has been open for as long.
class HangWatch {
 public:
  explicit HangWatch(int64_t limit_ns) : limit_ns_(limit_ns) {}
  /// True once for every time the job stands still.
  bool stands_still(const Progress& progress, int64_t now_ns);

 private:
  int64_t limit_ns_;
  std::optional<uint64_t> completed_;
  int64_t unchanged_since_ns_ = 0;
  bool said_ = false;
};

}  // namespace stalltrace::launch
