// SPDX-License-Identifier: Apache-2.0
// The order in which ranks launched calls on several communicators, where no ends of these calls are seen.
#pragma once

#include "analysis/stalls/hangs/hang_root.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

/// For an instance inside of whose calls ranks are held, and of whose communicator no end was seen: the first two calls
/// of two communicators that some ranks launched in one order and others in the other. Devices that take one kernel at
/// a time never end either (NCCL's user guide, "Using multiple NCCL communicators concurrently"). kCycle with a step
/// for the earlier call of each side, and with the one rank that differs from all others if these are at least two;
/// kNone if all ranks launched in one order. Only the last `kMostCallsAhead` calls of one thread of each rank are
/// compared; none if a thread has several communicators in one group, one per device. O(calls of these ranks).
HangRoot different_launch_order(const Timeline& timeline, const Instance& instance);

/// Of one rank, which has both sequences: true if between each two of the three calls before `number` it made as many
/// calls of `other`, and between the last of these and call `number` another number of them. False where one of the
/// four calls is not known. O(calls of `other` since then).
bool changes_order(const CallSequence& sequence, int64_t number, const CallSequence& other);

}  // namespace stalltrace::analysis
