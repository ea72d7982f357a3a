// SPDX-License-Identifier: Apache-2.0
// Which process has which rank on which communicator, and when it lived: what distinguishes job attempts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/intervals.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// When a process lived, by its host's clock.
struct Life {
  Interval time{kForever, -kForever};  // as far as known; open ends reach as far as something was seen of it
  bool start_known = false;
  bool exit_known = false;

  /// Whether both were alive at one moment. A process's start is known to a tick of the kernel's clock.
  [[nodiscard]] bool meets(const Life& other) const;
  /// Takes in another one.
  void extend(const Life& other);
};

/// The rank of one process on one communicator.
struct Seat {
  MemberIndex member = kNoMember;
  CommHash hash = 0;
  std::optional<int32_t> rank;
  Life life;
  Interval active{kForever, -kForever};  // from its first call on the communicator to its last
  const CallSequence* calls = nullptr;   // its longest sequence; null: none whose numbers are those of all ranks
};

/// When each member lived, by what all tables say of it.
std::vector<Life> lives_of(const Cluster& cluster, const std::vector<CallSequence>& sequences,
                           const std::vector<CommunicatorCall>& calls);

/// One for each process on each communicator that has a name, by communicator. Points into `sequences`.
std::vector<Seat> seats_of(const Cluster& cluster, const std::vector<CallSequence>& sequences,
                           const std::vector<CommunicatorCall>& calls, const std::vector<Life>& lives);

/// Two agents of one host can each record the same process.
bool same_process(const Cluster& cluster, const Seat& a, const Seat& b);

/// How far apart two processes made the calls that have one sequence number.
struct Apart {
  int64_t calls = 0;      // compared
  int64_t mean_ns = 0;    // without calls to compare: between the times in which they were active
  int64_t spread_ns = 0;  // the range of the middle half: what no error of a clock changes
};
Apart apart(const Seat& a, const Seat& b);

}  // namespace stalltrace::analysis
