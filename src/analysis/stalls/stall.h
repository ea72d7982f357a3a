// SPDX-License-Identifier: Apache-2.0
// One part of an instance that took too long: a common head, and what only its kind has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "analysis/stalls/hangs/hang_root.h"
#include "analysis/stalls/verdict.h"
#include "analysis/thresholds.h"

namespace stalltrace::analysis {

/// A stall that has not ended.
struct Hang {
  HangRoot root;
  bool ended_job = false;  // the job ended in it: it is no hang, however long it lasted
};

/// The others waited for one rank, which came.
struct LateArrival {
  MemberIndex rank = kNoMember;
  int32_t calling_tid = 0;  // the thread that made the rank's calls
};

/// All ranks had arrived.
struct SlowTransfer {
  std::optional<Hang> hang;  // none: it ended
};

/// The others wait for ranks that have not come.
struct MissingRank {
  Hang hang;
  bool majority_absent = false;  // more ranks stayed away than came
  bool nobody_waited = false;    // nobody came: the job ended before
  int32_t calling_tid = 0;       // of the rank where it comes from; 0: no single one
};

/// Ranks entered different calls under one sequence number: they hang, or ended it with wrong data.
struct Mismatch {
  SignatureVote vote;
  int64_t wrong_data = 0;  // how many instances they ended with the same difference, this one first; 0: they hang
  Hang hang;               // its root is the odd rank
};

/// Where the search found it: an instance, by its group and its index there.
struct InstanceId {
  uint32_t group = 0;
  int64_t column = 0;
  auto operator<=>(const InstanceId&) const = default;
};

struct Stall {
  uint32_t group = 0;
  int64_t column = 0;
  uint16_t signature = 0;
  Verdict verdict;
  Interval window{0, 0};              // when the job waited; for a transfer, all of it
  int64_t lost_ns = 0;                // the part of the window that exceeds the baseline
  std::optional<int64_t> usual_ns;    // the baseline, where it is known: of a transfer
  std::vector<MemberIndex> suspects;  // whose own state may explain it: the late or blamed rank; of a transfer, all
  std::vector<MemberIndex> members;   // all that took part
  bool single_node = false;           // the other ranks were not recorded (single_node.h)
  std::variant<SlowTransfer, LateArrival, MissingRank, Mismatch> kind;

  [[nodiscard]] InstanceId instance() const { return {group, column}; }
  [[nodiscard]] StallPart part() const { return verdict.part; }
  /// Null where it ended: of a late arrival, a transfer that ended, and wrong data.
  [[nodiscard]] const Hang* hang() const;
  [[nodiscard]] bool hung() const { return hang() != nullptr; }
  [[nodiscard]] bool ended_job() const { return hung() && hang()->ended_job; }
  /// Where it comes from; of kind kNone for a late arrival and a transfer that ended.
  [[nodiscard]] const HangRoot& root() const;
  /// Null unless it is a mismatch.
  [[nodiscard]] const SignatureVote* vote() const;
  /// Mismatch::wrong_data; 0 for any other kind.
  [[nodiscard]] int64_t wrong_data() const;
  /// MissingRank::majority_absent; false for any other kind.
  [[nodiscard]] bool majority_absent() const;
  /// MissingRank::nobody_waited; false for any other kind.
  [[nodiscard]] bool nobody_waited() const;
  /// The calling thread of the late or missing rank; 0 where no single rank is.
  [[nodiscard]] int32_t calling_tid() const;

  /// The lost time as an interval, at the end of the window.
  [[nodiscard]] Interval lost() const { return {window.to_ns - lost_ns, window.to_ns}; }
  /// The part of the window that evidence is read for.
  [[nodiscard]] Interval examined() const {
    return {window.from_ns, std::min(window.to_ns, window.from_ns + kLongestStallNs)};
  }
  /// What evidence has to cover.
  [[nodiscard]] int64_t to_explain_ns() const { return std::min(lost_ns, examined().length()); }
};

}  // namespace stalltrace::analysis
