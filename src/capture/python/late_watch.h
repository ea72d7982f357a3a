// SPDX-License-Identifier: Apache-2.0
// Decides, while a job runs, whose stacks to read: those of ranks that others wait for, of all processes without
// progress, and of a few that wait. Cheap; chooses no process while the job makes progress. Pure: the caller passes the
// time.
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
  /// How long a process waits inside a collective for a rank outside of it: more than the usual scatter of ranks.
  static constexpr int64_t kLateNs = 150 * kNsPerMs;
  /// One for which others waited that long kOften times within kRememberedNs, as with a data loader that pauses or a
  /// collection of garbage, is read sooner, if it is the only one that is awaited: such pauses are hardly longer than
  /// kLateNs, and would be over when they are read.
  static constexpr int64_t kSoonNs = 60 * kNsPerMs;
  static constexpr int kOften = 2;
  static constexpr int64_t kRememberedNs = 60 * kNsPerSecond;
  /// How soon choose() wants to be called again if hurries().
  static constexpr int64_t kHurriedNs = 20 * kNsPerMs;
  /// Where no process waits here (they are on other nodes, or all are inside): this long without a call ...
  static constexpr int64_t kStillNs = 2 * kNsPerSecond;
  /// ... and this many times the usual time between calls.
  static constexpr int64_t kUnusual = 8;
  /// A process without progress is read again after this multiple of the time so far.
  static constexpr int64_t kAgain = 4;
  /// Budget of samples: this many at once, and one more every kEveryNs; the last kKept are reserved for pauses of
  /// kStillNs or longer.
  static constexpr int64_t kMostAtOnce = 6;
  static constexpr int64_t kEveryNs = 10 * kNsPerSecond;
  static constexpr int64_t kKept = 2;
  /// A reading before kLateNs leaves one more: ranks whose ordinary scatter is that long would use up all.
  static constexpr int64_t kKeptFromEarly = kKept + 1;
  /// A process of which nothing could be read because it ran is left out for the time that refills all samples: it
  /// would use them up.
  static constexpr int64_t kLeftOutNs = kMostAtOnce * kEveryNs;
  /// Shortest interval between requested samples.
  static constexpr int64_t kAskedNs = 2 * kNsPerSecond;
  /// Number of processes in one sample.
  static constexpr size_t kMostOutside = 8;
  static constexpr size_t kMostInside = 4;

  /// The processes to read now, those that others may wait for first; usually none.
  std::vector<pid_t> choose(std::span<const CallStanding> standings, int64_t now_ns);
  /// A finding was reported: read the processes without progress as soon as possible.
  void ask() { asked_ = true; }
  /// After choose(): a process has been awaited for kSoonNs, or at all if it often is for long, and not yet for
  /// kLateNs.
  [[nodiscard]] bool hurries() const { return hurries_; }

 private:
  class Waits;
  [[nodiscard]] bool take_token(int64_t now_ns, int64_t waited_ns);
  [[nodiscard]] bool is_often_late(pid_t pid) const;
  void note_late(const CallStanding& standing, int64_t now_ns);
  bool note_pauses(std::span<const CallStanding> standings, const Waits& late, const Waits& soon, int64_t now_ns);
  /// Those of one process for which others waited for kLateNs.
  struct Pauses {
    int count = 0;
    bool lasts = false;  // others still wait in the last one
    int64_t seen_ns = 0;
  };
  /// A time without calls, and its length at the next sample.
  struct Still {
    int64_t since_ns = 0;
    int64_t next_sample_ns = 0;
  };

  std::map<pid_t, Still> still_;
  std::map<pid_t, Pauses> pauses_;
  int64_t tokens_ns_ = kMostAtOnce * kEveryNs;
  int64_t filled_ns_ = 0;
  int64_t answered_ns_ = 0;
  bool asked_ = false;
  bool hurries_ = false;
};

/// A LateWatch for each user, whose samples cost the others none of theirs: users take turns.
class LateWatches {
 public:
  using StandingsOfUsers = std::map<uint32_t, std::vector<CallStanding>>;

  /// The processes of one user to read now, of the next whose sample is due; usually none.
  std::vector<pid_t> choose(const StandingsOfUsers& users, int64_t now_ns);
  void ask() { asked_ = true; }
  /// After choose(): LateWatch::hurries() of any user who was looked at.
  [[nodiscard]] bool hurries() const { return hurries_; }

 private:
  static constexpr size_t kMostUsers = 1024;

  std::map<uint32_t, LateWatch> watches_;
  uint32_t last_ = 0;  // the user who was sampled
  bool asked_ = false;
  bool hurries_ = false;
};

}  // namespace stalltrace::capture
