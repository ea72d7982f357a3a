// SPDX-License-Identifier: Apache-2.0
// How jobs ended: which rank left first by itself, before the calls of other ranks failed or a launcher ended them.
// Python closes its sockets some time before its process ends, so that the other ranks' calls fail first: a rank leaves
// when it closes its first connection to another rank, or when its process ends. Pure; single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/evidence/flows.h"
#include "analysis/stalls/hangs/hang_root.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// True if nothing asked the process to end (SIGTERM, SIGINT, SIGHUP) and it did not exit with success. False if only
/// the time of its end is known, as from its profiler file: such times are not precise enough to be ordered.
bool failed_by_itself(const Member& member);
bool failed_by_itself(std::optional<int32_t> exit_signal, std::optional<int32_t> exit_code);
/// By a signal, or as a shell reports one of its command.
bool was_asked_to_end(std::optional<int32_t> exit_signal, std::optional<int32_t> exit_code);
/// True if the process ended as one does whose call failed: with an exit code, or by SIGABRT.
bool ended_like_a_failed_call(const Member& member);

struct JobEnd {
  enum class Kind : uint8_t {
    kFirst,       // one rank left before all others
    kSeveral,     // several ranks failed in one way, and no rank waited for one of them in a collective
    kAfterwards,  // a rank failed, but no rank waited for it, and the others ended in good order or did not end
  };
  Kind kind = Kind::kFirst;
  std::vector<MemberIndex> leavers;  // the first one comes first; only kSeveral has more than one
  int64_t left_ns = 0;               // when the first one left
  bool closed_first = false;         // it closed a connection at that time; its process ended later
  std::optional<HangStep> last;      // the last collective that the first one completed
  int64_t last_end_ns = 0;           // when that collective ended; unset without `last`
  bool others_waited = false;        // ranks were inside collectives
  std::optional<int64_t> failed_ns;  // when another rank's call first failed
  size_t ranks = 0;                  // recorded ranks of the job at that time

  [[nodiscard]] MemberIndex first() const { return leavers.front(); }
};

class JobEnds {
 public:
  JobEnds() = default;
  /// One entry per job (ranks that share communicators) that ended in such a way. Jobs that were ended from outside,
  /// and jobs whose calls failed while all ranks lived, have none. Time is at most the number of call sequences times
  /// ranks.
  static JobEnds find(const Timeline& timeline, const Cluster& cluster, const Flows& flows);

  [[nodiscard]] const std::vector<JobEnd>& all() const { return ends_; }
  /// The end that stopped the member's job: kFirst or kSeveral. Null if there is none.
  [[nodiscard]] const JobEnd* of(MemberIndex member) const;

 private:
  std::vector<JobEnd> ends_;
  std::vector<std::optional<size_t>> end_of_;  // by member: index of its job's end
};

}  // namespace stalltrace::analysis
