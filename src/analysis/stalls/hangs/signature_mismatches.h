// SPDX-License-Identifier: Apache-2.0
// Where ranks entered different calls under one sequence number: those they hang in, and those they ended all the
// same, with wrong data.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analysis/stalls/hangs/open_call_graph.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

class SignatureMismatches {
 public:
  SignatureMismatches(const Timeline& timeline, const Cluster& cluster, const OpenCallGraph& graph)
      : timeline_(timeline), cluster_(cluster), graph_(graph) {}

  /// Instances in which the same ranks entered the same calls, and all ended it.
  struct Ended {
    SignatureVote vote;  // on the first of them
    int64_t instances = 0;
  };

  /// OpenCallGraph::disagreement, computed once per group.
  const std::optional<SignatureVote>& hanging_in(uint32_t group);
  /// The vote on the instance that the path of a root leads to; none unless the root is a mismatch.
  std::optional<SignatureVote> hanging_at(const HangRoot& root);
  /// Notes what the ranks of an instance entered if it differs and all ended it. True for the first of those in which
  /// the same ranks entered the same: the others are counted with it. To be called in order of instances. Only where
  /// the library asks all ranks for equal arguments; calls that were lined up by time may be lined up wrongly.
  bool note_ended(const Instance& instance);
  /// Those that begin with this instance; null where there are none.
  [[nodiscard]] const Ended* ended_in(const Instance& instance) const;
  /// A rank that ended in good order while others wait in the instance, behind collectives with wrong data: what it
  /// sent less in those, the others lack now. Then the root becomes that mismatch, and its vote is returned.
  std::optional<SignatureVote> blame_end(const Instance& instance, HangRoot& root) const;

 private:
  const Timeline& timeline_;
  const Cluster& cluster_;
  const OpenCallGraph& graph_;
  std::map<uint32_t, std::optional<SignatureVote>> hanging_;  // by group
  std::map<uint32_t, std::vector<Ended>> ended_;              // by group
};

}  // namespace stalltrace::analysis
