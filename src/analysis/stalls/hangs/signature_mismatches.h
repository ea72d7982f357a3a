// SPDX-License-Identifier: Apache-2.0
// Instances whose ranks entered different calls under one sequence number: those that hang, and those that ended with
// wrong data.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analysis/stalls/hangs/hang_root.h"
#include "analysis/timeline/cluster.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

class SignatureMismatches {
 public:
  SignatureMismatches(const Timeline& timeline, const Cluster& cluster) : timeline_(timeline), cluster_(cluster) {}

  /// Instances that all ranks ended, and in which the same ranks entered the same differing calls.
  struct Ended {
    SignatureVote vote;     // on the first of these instances
    SignatureVote counted;  // the same without history
    int64_t instances = 0;
  };

  /// disagreement(), computed once per group.
  const std::optional<SignatureVote>& hanging_in(uint32_t group);
  /// The vote on the instance at the end of a root's path; none unless the root is a mismatch.
  std::optional<SignatureVote> hanging_at(const HangRoot& root);
  /// Notes the signatures of an ended instance whose ranks differ. True for the first instance with this combination of
  /// ranks and calls; later ones are counted with it. Call it in order of instances. Used only if the library requires
  /// equal arguments on all ranks; calls that were matched by time may be matched wrongly.
  bool note_ended(const Instance& instance);
  /// The entry that begins with this instance; null if there is none.
  [[nodiscard]] const Ended* ended_in(const Instance& instance) const;
  /// Handles a rank that ended in good order although others wait for it in the instance, after collectives with wrong
  /// data: data that it did not send in those is missing now. The root becomes that mismatch, and its vote is returned.
  std::optional<SignatureVote> blame_end(const Instance& instance, HangRoot& root) const;

 private:
  const Timeline& timeline_;
  const Cluster& cluster_;
  std::map<uint32_t, std::optional<SignatureVote>> hanging_;  // by group
  std::map<uint32_t, std::vector<Ended>> ended_;              // by group
};

}  // namespace stalltrace::analysis
