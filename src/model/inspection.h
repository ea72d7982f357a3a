// SPDX-License-Identifier: Apache-2.0
// The inspection of one instance: its baseline, how its time splits, and the evidence of every cause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/finding.h"

namespace stalltrace {

/// Why a part of an instance is or is not a stall.
enum class VerdictReason : uint8_t {
  // A stall:
  kTooLong,    // longer than the limit
  kHang,       // has not ended for longer than the limit
  kEndedJob,   // had not ended when the job ended in it
  kWrongData,  // ended by ranks that had entered different calls
  // None:
  kBelowLimit,
  kNoBaseline,         // long, but there are too few calls for a baseline, and the limit without one is higher
  kWarmingUp,          // long, but among the first of its communicator, whose limit is higher
  kPairUsual,          // a Recv waited for its Send as long as it usually does
  kClockUncertain,     // late by the clocks of hosts that cannot be compared
  kNoRankWaited,       // late, but those who came before were done
  kInBatch,            // one synchronisation completed it with later calls, of which the last is judged
  kStepAsUsual,        // the last of a batch, whose step took no longer than usual
  kStepUnknown,        // the last of a batch, too few such steps are known, and it cost less than the floor
  kInPreviousCall,     // the last rank's previous call had ended shortly before its arrival
  kWaitedForLateRank,  // long, but its ranks waited for a late rank in another instance
  kMayStillCome,       // the absent rank is usually that late
  kStillLaunching,     // not ended, but its ranks launched calls on other communicators until shortly before
  kHeldUpElsewhere,    // held up by another instance, which is judged
  kOthersWentOn,       // a rank is inside though later calls of its communicator ended
  kEndUnknown,         // its end was not reported
  kOutsideRange,       // would be a stall, but is outside of the requested time range
  kLeftOut,            // would be a stall, but too many others cost more
};
/// "below_limit"
std::string_view to_text(VerdictReason reason);

/// One rank's call in the instance.
struct InspectedCall {
  std::string who;  // "rank 2 (node2, pid 4711)"
  int64_t arrival_ns = 0;
  std::optional<int64_t> end_ns;  // none: it never ended, or its end was not reported
  bool unobserved = false;        // its end was not reported
};

/// One cause's result for one part.
struct InspectedCause {
  Cause cause = Cause::kUnknown;
  bool chosen = false;
  bool applies = false;
  bool dismissed = false;       // explains the time as ordinary
  std::optional<double> share;  // share of the lost time that its evidence covers; none: it had no evidence
  std::string text;             // its evidence in numbers, or the evidence it would need
};

/// The wait for the last rank, the transfer, or the wait for a rank that never came.
struct InspectedPart {
  std::string name;  // "late", "transfer", "absent"
  TimeRange time;
  int64_t lost_ns = 0;
  bool stall = false;
  VerdictReason reason = VerdictReason::kBelowLimit;
  int64_t value_ns = 0;  // the measured value ...
  int64_t limit_ns = 0;  // ... and its limit
  std::string why;       // the reason, with these numbers
  std::vector<InspectedCause> causes;
  std::optional<int64_t> finding;  // number in the report, from 1
};

/// The instances that it was compared with: same communicator, operation and size, complete, warmed up.
struct InspectedLike {
  int64_t count = 0;
  bool enough = false;   // enough for a baseline
  int64_t usual_ns = 0;  // the baseline: lower quartile of their transfers
  int64_t median_ns = 0;
  int64_t mad_ns = 0;         // median absolute deviation
  int64_t limit_ns = 0;       // a longer transfer is a stall
  int64_t late_limit_ns = 0;  // a longer wait for the last rank is a stall
  bool by_reference = false;  // count, baseline and limit are those of the run given by --like
};

struct Inspection {
  EventId event_id = 0;  // the requested call
  Operation op = Operation::kAllReduce;
  int64_t bytes = 0;
  CommHash comm_id_hash = 0;
  int64_t number = 0;                // on its communicator
  std::optional<int64_t> attempt;    // of the job; none: there is only one
  std::vector<InspectedCall> calls;  // by arrival
  std::vector<std::string> absent;
  bool warming_up = false;
  bool outside_range = false;          // does not overlap the requested time range
  int64_t late_ns = 0;                 // from the middle arrival of the others to the last
  std::optional<int64_t> transfer_ns;  // from the last arrival to the last end; none: not ended
  std::optional<double> split;  // P: 1 is one late rank, 0 a slow transfer; none: it took no longer than its baseline
  InspectedLike like;
  std::vector<InspectedPart> parts;
};

}  // namespace stalltrace
