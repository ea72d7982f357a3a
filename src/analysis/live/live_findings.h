// SPDX-License-Identifier: Apache-2.0
// Live analysis: a running trace is explained repeatedly over a sliding window, and the reports are merged over time. A
// finding begins when two consecutive reports contain it, grows while its stalls go on, ends when no new stall comes
// for a while, and resumes if one with its cause and location follows soon. Pure: the caller passes the time. Bounded
// memory. Single-threaded.
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

/// Changes of a finding, in the order in which they can happen.
enum class LiveNews : uint8_t {
  kBegan,
  kGrew,
  kWorsened,  // its severity rose from `waiting`
  kEnded,
  kCameBack,
};

struct LiveChange {
  LiveNews news = LiveNews::kBegan;
  int64_t time_ns = 0;  // time of the round that saw it
  int64_t number = 0;   // number of the finding in this trace, from 1
  Finding finding;  // the whole finding so far: `window`, `stall_ms` and `collectives_affected` count from its start
  int64_t explained_by = 0;  // kEnded: number of a later finding that accounts for the same time
};

/// Merges the findings of overlapping windows.
class LiveFindings {
 public:
  /// `window` is the time that the report covers. Changes come in order of the findings' numbers.
  std::vector<LiveChange> update(const Report& report, TimeRange window);
  /// The trace ends: what the last report no longer contained is over, even if it has not been quiet for long.
  std::vector<LiveChange> close(int64_t now_ns);
  /// The ranges that a later window must still hold for the lasting findings: the time before the oldest one, for its
  /// baseline, and the start of the oldest hang.
  [[nodiscard]] std::vector<TimeRange> needed() const;

 private:
  using Key = std::tuple<Cause, std::string, int32_t, std::string, std::string, int64_t>;
  struct Entry {
    Key key;
    int64_t number = 0;  // 0: not yet reported
    Finding newest;      // as in the last round that saw it
    Finding total;
    int64_t retired_ns = 0;  // lost before the window of `newest`
    int64_t retired_stalls = 0;
    int64_t reported_ms = 0;        // stall_ms at the last reported change
    bool reported_waiting = false;  // its severity was `waiting` at that time
    int rounds = 0;                 // consecutive rounds that saw it
    bool ended = false;
  };

  static Key key_of(const Finding& finding);
  void see(const Finding& finding, TimeRange window);
  void retire_stalls(Entry& entry, int64_t horizon_ns);
  void refresh(Entry& entry) const;
  void judge(Entry& entry, TimeRange window, std::vector<LiveChange>& changes);
  [[nodiscard]] int64_t explained_by(const Entry& entry) const;

  std::vector<Entry> entries_;
  int64_t reported_ = 0;
};

/// Gives each job attempt one number for the whole trace, independent of the other attempts in the window.
class AttemptNumbers {
 public:
  /// Sets the numbers in the report's attempts and findings.
  void apply(Report& report);

 private:
  std::map<std::pair<NodeId, int32_t>, int64_t> known_;  // by process
  int64_t last_ = 0;
};

class LiveAnalysis final : public EventSink {
 public:
  explicit LiveAnalysis(WindowLimits limits = {}) : window_(limits) {}

  void accept(Event event) override { window_.accept(std::move(event)); }
  /// The trace has reached `now_ns` (UTC of its node), and all events up to it were accepted.
  Result<std::vector<LiveChange>> run_round(int64_t now_ns);
  /// The last round of a trace that ends.
  Result<std::vector<LiveChange>> finish(int64_t now_ns);
  /// Number of rows held.
  [[nodiscard]] size_t rows() const { return window_.rows(); }

 private:
  LiveWindow window_;
  LiveFindings findings_;
  AttemptNumbers attempts_;
};

}  // namespace stalltrace::analysis
