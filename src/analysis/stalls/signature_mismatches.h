// SPDX-License-Identifier: Apache-2.0
// Where ranks entered different things under one sequence number: those they hang in, and those they ended all the
// same, with wrong data.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analysis/stalls/hangs.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

struct Stall;

class SignatureMismatches {
 public:
  SignatureMismatches(const Timeline& timeline, const Cluster& cluster, const OpenCallGraph& hangs)
      : timeline_(timeline), cluster_(cluster), hangs_(hangs) {}

  /// OpenCallGraph::disagreement, asked once per group.
  const std::optional<SignatureVote>& hanging_in(uint32_t group);
  /// Notes what the ranks of an instance entered if they disagreed and all ended it. True for the first of those in
  /// which the same ranks entered the same: the others are counted with it. To be called in order of columns.
  bool note_ended(const Instance& instance);
  /// Makes the stall of a noted instance one for its wrong data.
  void blame_ended(const Instance& instance, Stall& stall) const;
  /// A rank that ended in good order while others wait in the instance, behind collectives with wrong data: what one
  /// rank sent less in those, the others lack now.
  void blame_end(const Instance& instance, Stall& stall) const;

  static void blame(Stall& stall, const SignatureVote& vote);

 private:
  const Timeline& timeline_;
  const Cluster& cluster_;
  const OpenCallGraph& hangs_;
  std::map<uint32_t, std::optional<SignatureVote>> hanging_;  // by group
  struct Ended {
    SignatureVote vote;  // of the first
    int64_t instances = 0;
  };
  std::map<uint32_t, std::vector<Ended>> ended_;  // by group
};

}  // namespace stalltrace::analysis
