// SPDX-License-Identifier: Apache-2.0
// A running trace, looked at again and again by the analysis that explains recordings: what a sliding window of its
// events shows, put together over time. A finding begins when two looks in a row see it, grows while its stalls go on,
// ends when none came for a while, and is taken up again when one of its cause and place comes soon after. Pure: the
// caller says what time it is. Bounded memory. Single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/live/live_window.h"
#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// Of what was reported, in the order it happens to a finding.
enum class LiveNews : uint8_t {
  kBegan,
  kGrew,
  kWorsened,  // what was a wait is none any more: its severity has risen
  kEnded,
  kCameBack,
};

struct LiveChange {
  LiveNews news = LiveNews::kBegan;
  int64_t time_ns = 0;       // of the look that saw it
  int64_t number = 0;        // of the finding in this trace, from 1
  Finding finding;           // all of it until now: `window`, `stall_ms` and `collectives_affected` since it began
  int64_t explained_by = 0;  // kEnded: a later finding accounts for the same time
};

/// Folds the findings of overlapping windows.
class LiveFindings {
 public:
  /// `window` is what the report could see. Changes in the order of findings' numbers.
  std::vector<LiveChange> update(const Report& report, TimeRange window);
  /// What a later window must still hold to see the findings that last: what was usual before the oldest began, and how
  /// the oldest hang did.
  [[nodiscard]] std::vector<TimeRange> needed() const;

 private:
  using Key = std::tuple<Cause, std::string, int32_t, std::string, std::string, int64_t>;
  struct Entry {
    Key key;
    int64_t number = 0;  // 0: not reported yet
    Finding newest;      // as the last look that saw it had it
    Finding total;
    int64_t settled_ns = 0;  // lost before the window that `newest` is of
    int64_t settled_stalls = 0;
    int64_t reported_ms = 0;        // stall_ms when a change was last given
    bool reported_waiting = false;  // its severity was `waiting` then
    int looks = 0;                  // in a row
    bool ended = false;
  };

  static Key key_of(const Finding& finding);
  void see(const Finding& finding, TimeRange window);
  void settle(Entry& entry, int64_t horizon_ns);
  void refresh(Entry& entry) const;
  void judge(Entry& entry, TimeRange window, std::vector<LiveChange>& changes);
  [[nodiscard]] int64_t explained_by(const Entry& entry) const;

  std::vector<Entry> entries_;
  int64_t reported_ = 0;
};

/// Gives a job attempt one number for the whole trace, whatever others a window still shows.
class AttemptNumbers {
 public:
  /// In the report's attempts and findings.
  void apply(Report& report);

 private:
  std::map<std::pair<NodeId, int32_t>, int64_t> known_;  // of processes
  int64_t last_ = 0;
};

class LiveAnalysis final : public EventSink {
 public:
  explicit LiveAnalysis(WindowLimits limits = {}) : window_(limits) {}

  void accept(Event event) override { window_.accept(std::move(event)); }
  /// The trace has come to `now_ns` (UTC of its node), and all events until then were accepted.
  Result<std::vector<LiveChange>> look(int64_t now_ns);
  /// Rows held.
  [[nodiscard]] size_t rows() const { return window_.rows(); }

 private:
  LiveWindow window_;
  LiveFindings findings_;
  AttemptNumbers attempts_;
};

}  // namespace stalltrace::analysis
