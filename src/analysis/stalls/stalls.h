// SPDX-License-Identifier: Apache-2.0
// Which instances took too long, by how much, and which part of them: waiting for a rank, or the transfer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analysis/stalls/hangs.h"
#include "analysis/thresholds.h"
#include "analysis/timeline/instance.h"
#include "model/finding.h"

namespace stalltrace::analysis {

enum class StallPart : uint8_t {
  kLate,      // the others waited for the last rank
  kTransfer,  // all had arrived
  kAbsent,    // a recorded rank never came
};

struct Stall {
  uint32_t group = 0;
  int64_t column = 0;
  uint16_t signature = 0;
  StallPart part = StallPart::kTransfer;
  Interval window{0, 0};    // when the job waited; for a transfer, all of it
  int64_t lost_ns = 0;      // the part of the window that its like does not need
  int64_t baseline_ns = 0;  // what its like needs; 0 where that is unknown
  bool has_baseline = false;
  bool hung = false;
  bool ended_job = false;             // the job ended in it, sooner than a hang is called one
  int32_t calling_tid = 0;            // of the late rank, where there is one
  std::vector<MemberIndex> suspects;  // late: that rank; hung: the root's; transfer: all ranks of the instance
  std::vector<MemberIndex> members;   // all that took part
  HangRoot hang;                      // of a stall that has not ended: where it comes from
  std::optional<SignatureVote> vote;  // kMismatch: what was entered
  int64_t wrong_data = 0;             // kMismatch: so many instances all ranks ended all the same, this one first
  bool majority_absent = false;       // kOutside: more ranks stayed away than came
  bool single_node = false;           // the other ranks were not recorded (single_node.h)

  /// The lost time as an interval, at the end of the window.
  [[nodiscard]] Interval lost() const { return {window.to_ns - lost_ns, window.to_ns}; }
  /// The part of the window that evidence is read for.
  [[nodiscard]] Interval examined() const {
    return {window.from_ns, std::min(window.to_ns, window.from_ns + kLongestStallNs)};
  }
  /// What evidence has to cover.
  [[nodiscard]] int64_t to_explain_ns() const { return std::min(lost_ns, examined().length()); }
};

struct StallSearch {
  std::vector<Stall> stalls;  // in time order
  int64_t instances = 0;
  int64_t dropped = 0;  // stalls beyond the bound, the cheapest ones
};

StallSearch find_stalls(const Timeline& timeline, const Cluster& cluster, TimeRange range);

}  // namespace stalltrace::analysis
