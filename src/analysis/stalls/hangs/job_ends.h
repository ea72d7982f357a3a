// SPDX-License-Identifier: Apache-2.0
// How jobs ended: which rank left first, by itself, before calls of the others failed or a launcher ended them.
// Python closes its sockets some time before its process ends, so that the others' calls fail first: a rank leaves when
// it closes its first connection to another rank, or when its process ends. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/evidence/flows.h"
#include "analysis/stalls/hangs/hang_root.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// It was not asked to end (SIGTERM, SIGINT, SIGHUP), and did not say that all went well. False where only the time of
/// its end is known, as from its profiler file: the order of such times is too vague.
bool failed_by_itself(const Member& member);
bool failed_by_itself(std::optional<int32_t> exit_signal, std::optional<int32_t> exit_code);
/// By a signal, or as a shell reports one of its command.
bool was_asked_to_end(std::optional<int32_t> exit_signal, std::optional<int32_t> exit_code);

struct JobEnd {
  enum class Kind : uint8_t {
    kFirst,       // one rank left before all others
    kSeveral,     // several ranks failed in one way, and nobody waited for one of them in a collective
    kAfterwards,  // a rank failed, but nobody waited for it, and the others ended in good order or did not end
  };
  Kind kind = Kind::kFirst;
  std::vector<MemberIndex> leavers;  // the first one first; one unless kSeveral
  int64_t left_ns = 0;               // when the first one left
  bool closed_first = false;         // that is when it closed a connection, its process ended later
  std::optional<HangStep> last;      // the last collective that the first one came out of
  int64_t last_end_ns = 0;           // when it did; nothing where `last` is none
  bool others_waited = false;        // ranks were inside collectives
  std::optional<int64_t> failed_ns;  // when the first call of another one failed
  size_t ranks = 0;                  // of the job at that time, as far as they were recorded

  [[nodiscard]] MemberIndex first() const { return leavers.front(); }
};

class JobEnds {
 public:
  JobEnds() = default;
  /// One for each job (ranks that share communicators) that ended in such a way. A job that was ended from outside has
  /// none, nor has one whose calls failed while all its ranks lived. Time is at most the number of call sequences times
  /// ranks.
  static JobEnds find(const Timeline& timeline, const Cluster& cluster, const Flows& flows);

  [[nodiscard]] const std::vector<JobEnd>& all() const { return ends_; }
  /// The end of the member's job that stopped it: kFirst or kSeveral. Null where there is none.
  [[nodiscard]] const JobEnd* of(MemberIndex member) const;

 private:
  std::vector<JobEnd> ends_;
  std::vector<std::optional<size_t>> end_of_;  // by member: of its job
};

}  // namespace stalltrace::analysis
