// SPDX-License-Identifier: Apache-2.0
// The rank of each process on each communicator, and its lifetime: the data that distinguishes job attempts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/intervals.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// The lifetime of a process, by its host's clock.
struct Life {
  Interval time{kForever, -kForever};  // as far as known; unknown ends are the first and last observation
  bool start_known = false;
  bool exit_known = false;

  /// True if both were alive at one time. A process's start is known to a tick of the kernel's clock.
  [[nodiscard]] bool meets(const Life& other) const;
  /// Extends this lifetime to cover the other one.
  void extend(const Life& other);
};

/// The rank of one process on one communicator.
struct Seat {
  MemberIndex member = kNoMember;
  CommHash hash = 0;
  std::optional<int32_t> rank;
  Life life;
  Interval active{kForever, -kForever};  // from its first call on the communicator to its last
  const CallSequence* calls = nullptr;   // its longest sequence; null: none has numbers that are valid on all ranks
};

/// The lifetime of each member, from all tables.
std::vector<Life> lives_of(const Cluster& cluster, const std::vector<CallSequence>& sequences,
                           const std::vector<CommunicatorCall>& calls);

/// One seat per process and named communicator, sorted by communicator. Points into `sequences`.
std::vector<Seat> seats_of(const Cluster& cluster, const std::vector<CallSequence>& sequences,
                           const std::vector<CommunicatorCall>& calls, const std::vector<Life>& lives);

/// Two agents of one host can each record the same process.
bool same_process(const Cluster& cluster, const Seat& a, const Seat& b);

/// The time difference between two processes' calls with equal sequence numbers.
struct Apart {
  int64_t calls = 0;      // number of compared calls
  int64_t mean_ns = 0;    // without common calls: between the intervals in which they were active
  int64_t spread_ns = 0;  // range of the middle half, which clock errors do not change
};
Apart apart(const Seat& a, const Seat& b);

}  // namespace stalltrace::analysis
