// SPDX-License-Identifier: Apache-2.0
// Votes on the signatures of one instance whose ranks entered different calls.
#pragma once

#include <cstdint>
#include <optional>

#include "analysis/stalls/hangs/hang_root.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// The vote on the signatures under one sequence number; none if all agree. Without a majority it names no odd ones.
std::optional<SignatureVote> vote_on(const Timeline& timeline, uint32_t group, int64_t number);

/// Of a vote without a majority: what all ranks entered alike before shows which signature is the usual one. That is
/// the one that their calls repeat at this number, else the only one that they entered before. Reads a bounded number
/// of calls. Does not change other votes, nor one of whose signatures both or none are as before, or of which one has
/// an operation that they did not enter before.
void decide_by_history(const Timeline& timeline, SignatureVote& vote);

/// The vote, decided by history where there is no majority, on the first instance whose ranks differ, after the newest
/// one that all entered alike and ended. None for groups without open calls.
std::optional<SignatureVote> disagreement(const Timeline& timeline, uint32_t group);

}  // namespace stalltrace::analysis
