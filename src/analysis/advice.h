// SPDX-License-Identifier: Apache-2.0
// What to do about ranks that are not in the collective which others are in: the same words whatever showed it
// (recordings, logs, dumps, RAS, snapshots).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace stalltrace::analysis {

/// Some ranks made a call, the others did not, and no single one is to blame.
inline constexpr std::string_view kLookForUnevenCalls =
    "look for a collective under a condition that only some ranks meet (if rank == 0: ...), and for uneven numbers of "
    "steps";

/// Ranks made different calls under one number.
inline constexpr std::string_view kCompareCode =
    "compare the code of these ranks: shapes and types that depend on the rank or on its data, a collective that one "
    "rank skipped or made twice just before";

/// One rank, or a few, did not make the call.
inline constexpr std::string_view kLookForAbsence =
    "look for a collective that only some ranks call, uneven numbers of steps, an input that does not come";

/// The same where it is not known what the rank does. `who`: "rank 3 on node2".
inline std::string look_at_absent(std::string_view who) {
  return fmt::format("see where {} is (stalltrace stacks, py-spy dump), and why its process ended if it did; {}", who,
                     kLookForAbsence);
}

}  // namespace stalltrace::analysis
