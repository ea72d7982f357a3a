// SPDX-License-Identifier: Apache-2.0
// Decides, while a job runs, whose stacks are worth a look: of ranks that others wait for, of all that stand still, and
// of a few that wait. Cheap, and nothing is chosen while the job gets on. Pure: the caller says what time it is.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/clock.h"
#include "capture/python/call_standing.h"

namespace stalltrace::capture {

class LateWatch {
 public:
  /// Somebody waits this long inside a collective for a rank that is outside: beyond what ranks scatter.
  static constexpr int64_t kLateNs = 150 * kNsPerMs;
  /// Without anybody who waits here (the others are on other nodes, or all are inside): this long without a call ...
  static constexpr int64_t kStillNs = 2 * kNsPerSecond;
  /// ... and this many times the usual time between calls.
  static constexpr int64_t kUnusual = 8;
  /// While a process stands still, it is looked at again after this many times as long.
  static constexpr int64_t kAgain = 4;
  /// Looks: this many at once, and one more every kEveryNs; the last kKept are for what lasts kStillNs or longer.
  static constexpr int64_t kMostAtOnce = 6;
  static constexpr int64_t kEveryNs = 10 * kNsPerSecond;
  static constexpr int64_t kKept = 2;
  /// A look that was asked for comes at most this often.
  static constexpr int64_t kAskedNs = 2 * kNsPerSecond;
  /// Processes of a look.
  static constexpr size_t kMostOutside = 8;
  static constexpr size_t kMostInside = 4;

  /// Whom to look at now, those first that others may wait for; mostly nobody.
  std::vector<pid_t> choose(std::span<const CallStanding> standings, int64_t now_ns);
  /// A finding was reported: look as soon as may be at who stands still.
  void ask() { asked_ = true; }

 private:
  [[nodiscard]] bool take_token(int64_t now_ns, bool lasting);
  /// A time without calls, and how long it lasts when it is looked at next.
  struct Still {
    int64_t since_ns = 0;
    int64_t next_look_ns = 0;
  };

  std::map<pid_t, Still> still_;
  int64_t tokens_ns_ = kMostAtOnce * kEveryNs;
  int64_t filled_ns_ = 0;
  int64_t answered_ns_ = 0;
  bool asked_ = false;
};

}  // namespace stalltrace::capture
