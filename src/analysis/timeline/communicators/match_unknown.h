// SPDX-License-Identifier: Apache-2.0
// Matches the calls of communicators made before tracing began, which have no names, by order and time. Internal to the
// timeline.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

struct UnknownMatches {
  std::vector<std::vector<uint32_t>> groups;  // sequences; each is in exactly one group
  /// Those that are alone although their communicator may have other ranks of their job: the calls of none are near
  /// enough, those of several communicators are about as near, or there are too many to compare. Ascending.
  std::vector<uint32_t> unmatched;
  /// Of each group NCCL's hash of its communicator, if all sequences with that hash are in it, and no others; else 0.
  std::vector<CommHash> nccl_hashes;
};

/// Groups sequences of such communicators (same job, same operations and sizes, nearest ends) and sets their number
/// offsets. Where NCCL's hashes are known, only sequences with the same one are compared. A sequence joins a group only
/// where that is near enough and clearly the nearest (thresholds/matching.h), also of what its rank and the group's
/// first one call elsewhere. `sequences` are indices into `all`. The number of sequences that each is compared with is
/// bounded, as is that of compared calls.
UnknownMatches match_unknown_sequences(std::vector<CallSequence>& all, const std::vector<uint32_t>& sequences,
                                       const Cluster& cluster);

/// False if most calls of one number are of different kinds, or those that ended ended too far apart in time, to be of
/// one communicator. True of sequences that have no numbers in common.
bool may_be_numbered_alike(const CallSequence& a, const CallSequence& b, const Cluster& cluster);

/// A rank with an unmatched sequence may take part in any communicator without a name of its job: of those that lack
/// the rank, and are smaller than the job, it is not known that all their ranks took part.
void doubt_whole_groups(const std::vector<uint32_t>& unmatched, const std::vector<CallSequence>& all,
                        const Cluster& cluster, std::vector<Group>& groups);

}  // namespace stalltrace::analysis
