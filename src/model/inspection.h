// SPDX-License-Identifier: Apache-2.0
// One instance under the lens: what it was compared with, how its time splits, and what every cause had to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/finding.h"

namespace stalltrace {

/// What one rank did in the instance.
struct InspectedCall {
  std::string who;  // "rank 2 (node2, pid 4711)"
  int64_t arrival_ns = 0;
  std::optional<int64_t> end_ns;  // none: never ended, or untold
  bool unobserved = false;        // nobody tells its end
};

/// One cause's opinion about one part.
struct InspectedCause {
  Cause cause = Cause::kUnknown;
  bool chosen = false;
  bool applies = false;
  bool dismissed = false;       // explains the time as something ordinary
  std::optional<double> share;  // of the lost time that its evidence covers; none: it had no evidence
  std::string text;             // the evidence it had, in numbers, or what it would need
};

/// Waiting for the last rank, or the transfer.
struct InspectedPart {
  std::string name;  // "late", "transfer", "absent"
  TimeRange time;
  int64_t lost_ns = 0;
  bool stall = false;
  std::string why;  // why it is a stall, or none
  std::vector<InspectedCause> causes;
  std::optional<int64_t> finding;  // number in the report, from 1
};

/// The instances it was compared with: same communicator, operation and size, complete, warmed up.
struct InspectedLike {
  int64_t count = 0;
  bool enough = false;   // for a usual time
  int64_t usual_ns = 0;  // lower quartile of their transfers
  int64_t median_ns = 0;
  int64_t mad_ns = 0;         // median absolute deviation
  int64_t limit_ns = 0;       // a longer transfer is a stall
  int64_t late_limit_ns = 0;  // a longer wait for the last rank is one
};

struct Inspection {
  EventId event_id = 0;  // that was asked for
  Operation op = Operation::kAllReduce;
  int64_t bytes = 0;
  CommHash comm_id_hash = 0;
  int64_t number = 0;                // on its communicator
  std::vector<InspectedCall> calls;  // by arrival
  std::vector<std::string> absent;
  bool warming_up = false;
  int64_t late_ns = 0;                 // from the middle arrival of the others to the last
  std::optional<int64_t> transfer_ns;  // from the last arrival to the last end; none: not ended
  std::optional<double> split;  // P: 1 is one late rank, 0 a slow transfer; none: it took no longer than its like
  InspectedLike like;
  std::vector<InspectedPart> parts;
};

}  // namespace stalltrace
