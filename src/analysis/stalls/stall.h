// SPDX-License-Identifier: Apache-2.0
// One part of an instance that took too long: common fields, and the fields of its kind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "analysis/stalls/hangs/hang_root.h"
#include "analysis/stalls/verdict.h"
#include "analysis/thresholds/bounds.h"

namespace stalltrace::analysis {

/// A stall that has not ended.
struct Hang {
  HangRoot root;
  bool ended_job = false;  // the job ended in it: then it is no hang, however long it lasted
};

/// The others waited for one rank, which came.
struct LateArrival {
  MemberIndex rank = kNoMember;
  int32_t calling_tid = 0;  // the thread that made the rank's calls
  bool on_device = false;   // its CPU had called in time: what its device had to do before came late
};

/// All ranks had arrived.
struct SlowTransfer {
  std::optional<Hang> hang;  // none: the transfer ended
};

/// The others wait for ranks that have not come.
struct MissingRank {
  Hang hang;
  bool majority_absent = false;  // more ranks are absent than present
  bool no_rank_waited = false;   // no rank came: the job ended before
  int32_t calling_tid = 0;       // thread of the blamed rank; 0 if no single rank is to blame
};

/// Ranks entered different calls under one sequence number and hang, or ended them with wrong data.
struct Mismatch {
  SignatureVote vote;
  int64_t wrong_data = 0;  // number of instances that ended with this difference, this one first; 0: they hang
  Hang hang;               // its root is the odd rank
};

/// An instance, by its group and its number there.
struct InstanceId {
  uint32_t group = 0;
  int64_t number = 0;
  auto operator<=>(const InstanceId&) const = default;
};

/// Of a stall that one synchronisation ended together with others: what is known is how long the whole step took.
struct BatchLoss {
  int64_t calls = 0;     // that the synchronisation ended, on this communicator
  int64_t took_ns = 0;   // from the synchronisation before
  int64_t usual_ns = 0;  // of other steps
};

struct Stall {
  uint32_t group = 0;
  int64_t number = 0;
  uint16_t signature = 0;
  Verdict verdict;
  Interval window{0, 0};              // when the job waited; for a transfer, its whole time
  int64_t lost_ns = 0;                // the part of the window that exceeds the baseline
  std::optional<int64_t> usual_ns;    // the transfer's baseline, if known
  std::vector<MemberIndex> suspects;  // whose own state may explain it: the late or blamed rank; for a transfer, all
  std::vector<MemberIndex> members;   // all that took part
  std::optional<BatchLoss> step;      // of a batch; none: the call's end is its own
  bool by_reference = false;          // what is usual is that of another run, which was right (reference.h)
  bool single_node = false;           // the other ranks were not recorded (single_node.h)
  std::variant<SlowTransfer, LateArrival, MissingRank, Mismatch> kind;

  [[nodiscard]] InstanceId instance() const { return {group, number}; }
  [[nodiscard]] StallPart part() const { return verdict.part; }
  /// Null if it ended: a late arrival, a completed transfer, or wrong data.
  [[nodiscard]] const Hang* hang() const;
  [[nodiscard]] bool hung() const { return hang() != nullptr; }
  [[nodiscard]] bool ended_job() const { return hung() && hang()->ended_job; }
  /// The origin of the hang; kNone for a late arrival and a completed transfer.
  [[nodiscard]] const HangRoot& root() const;
  /// Null unless it is a mismatch.
  [[nodiscard]] const SignatureVote* vote() const;
  /// Mismatch::wrong_data; 0 for any other kind.
  [[nodiscard]] int64_t wrong_data() const;
  /// MissingRank::majority_absent; false for any other kind.
  [[nodiscard]] bool majority_absent() const;
  /// MissingRank::no_rank_waited; false for any other kind.
  [[nodiscard]] bool no_rank_waited() const;
  /// LateArrival::on_device; false for any other kind.
  [[nodiscard]] bool on_device() const;
  /// The calling thread of the late or missing rank; 0 if no single rank is late or missing.
  [[nodiscard]] int32_t calling_tid() const;

  /// The lost time as an interval, at the end of the window.
  [[nodiscard]] Interval lost() const { return {window.to_ns - lost_ns, window.to_ns}; }
  /// The part of the window that evidence is read for.
  [[nodiscard]] Interval examined() const {
    return {window.from_ns, std::min(window.to_ns, window.from_ns + kLongestStallNs)};
  }
  /// The time that evidence must cover.
  [[nodiscard]] int64_t to_explain_ns() const { return std::min(lost_ns, examined().length()); }
};

}  // namespace stalltrace::analysis
