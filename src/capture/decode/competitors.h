// SPDX-License-Identifier: Apache-2.0
// Programs that ran instead of traced threads: their command lines and cgroups → rows of `competitor`. /proc is read
// soon after the first wait that names a process, and from time to time after that, but never while a record is
// decoded: a process that has ended by then is known by its name alone. A process that runs another program has a row
// for each. Its user has a share of the rows (user_shares.h). One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/process/procfs.h"
#include "capture/user_shares.h"
#include "model/events.h"
#include "model/process_registry.h"

namespace stalltrace::capture {

class Competitors {
 public:
  /// A competitor that ran for less in a wait's window (100 ms) is not looked at: such waits make no finding.
  static constexpr int64_t kNamedFromNs = 5 * kNsPerMs;
  static constexpr int64_t kReadEveryNs = 50 * kNsPerMs;  // between two readings ...
  static constexpr size_t kReadAtOnce = 8;                // ... of this many processes
  static constexpr size_t kMostNoted = 256;               // that wait to be read, of all users
  static constexpr size_t kMostKnown = 1024;              // that are watched, of all users
  static constexpr int64_t kCheckNs = kNsPerSecond;       // how often each of those is checked ...
  static constexpr size_t kMostChecks = 64;               // ... at most this many in one call
  /// A process that no wait has named for this long is idle: it is checked as rarely as this, and watched no more where
  /// another one needs its room.
  static constexpr int64_t kIdleNs = 10 * kNsPerSecond;
  /// When a process without a row (a kernel thread, one beyond its user's share) may be read again.
  static constexpr int64_t kIgnoredNs = 10 * kNsPerSecond;

  /// All references must outlive the object. `traced`: these are no competitors.
  Competitors(const Node& node, const Procfs& procfs, const ProcessRegistry& traced, UserShares& shares,
              EventSink& sink)
      : node_(node), procfs_(procfs), traced_(traced), shares_(shares), sink_(sink) {}

  /// Reads nothing.
  void note(const WaitSpan& wait);
  /// Reads some of the noted processes, and whether known ones live and run the same program: each about once a second,
  /// idle ones every ten, and again as soon as a wait names them.
  /// Delivers what is new. `between` is called after each process: it may call note(). To be called often; `now_ns` is
  /// CLOCK_MONOTONIC.
  void read(int64_t now_ns, const std::function<void()>& between);
  /// Reads all that are noted, until `end_ns` (CLOCK_MONOTONIC); the others are lost.
  void finish(int64_t now_ns, int64_t end_ns);

 private:
  struct Known {
    Competitor row;
    uint64_t start_ticks = 0;
    uint32_t user = 0;  // whose share it takes
    int64_t noted_ns = 0;
    int64_t check_ns = 0;
  };
  using AllKnown = std::map<int32_t, Known>;

  [[nodiscard]] bool is_traced(int32_t pid) const;
  /// A process that had the core of a rank.
  struct Noted {
    int32_t pid = 0;
    int32_t rank_pid = 0;
  };
  void read_process(Noted noted, int64_t now_ns);
  /// None where it can't be read now, or has no row.
  std::optional<Known> describe(Noted noted, uint64_t start_ticks, int64_t now_ns);
  void watch(Known known, int64_t now_ns);
  void check_at(int32_t pid, Known& known, int64_t time_ns);
  void check(AllKnown::iterator known, int64_t now_ns);
  /// Its row ends now. `lives`: that of the process may go on, in another row.
  void stop_watching(AllKnown::iterator known, int64_t now_ns, bool lives);
  /// Of the user's processes, or of all, the one that no wait has named for longest. False where none is idle.
  bool stop_watching_an_idle_one(std::optional<uint32_t> user, int64_t now_ns);
  /// Once for a process over some seconds.
  void lose(int32_t pid, uint32_t user);
  [[nodiscard]] std::string cgroup_of(int32_t pid) const;
  [[nodiscard]] int32_t traced_ancestor_of(int32_t pid) const;
  /// True for a rank of that rank's job, by its launcher's variables: an agent may trace some of a host's ranks alone.
  [[nodiscard]] bool is_rank_of_same_job(Noted noted) const;

  const Node& node_;
  const Procfs& procfs_;
  const ProcessRegistry& traced_;
  UserShares& shares_;
  EventSink& sink_;
  std::deque<Noted> noted_;  // in the order of their waits
  AllKnown known_;
  std::set<std::pair<int64_t, int32_t>> checks_;  // Known::check_ns and pid of all known ones
  std::map<int32_t, uint64_t> unwatched_;         // those that may still live → start time
  std::set<int32_t> ignored_;
  std::set<int32_t> lost_;  // counted
  int64_t now_ns_ = 0;      // of the last read()
  int64_t next_reading_ns_ = 0;
  int64_t ignored_until_ns_ = 0;
};

}  // namespace stalltrace::capture
