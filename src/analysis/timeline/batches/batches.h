// SPDX-License-Identifier: Apache-2.0
// Batches: calls of a process that one synchronisation completed. Its return is the end of all of them, though most
// were done long before: of a batch only the last call shows how long a rank waited.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

/// Sets Call::batch, process by process, whatever communicators its calls are on. Calls of one synchronisation that lie
/// within kStallFloorNs are no batch: each one's own end is known well enough. Linear in the calls.
void mark_batches(std::vector<CallSequence>& sequences);

/// The number of the first call that ended with this one, which has to be there, on its communicator.
int64_t first_in_batch(const CallSequence& sequence, int64_t number);

/// What ended with the batches of an instance.
struct BatchStep {
  int64_t period_ns = 0;  // from the end before the batch to its own; of the rank for which that is least
  int64_t begin_ns = 0;   // the first call of any rank's batch on this communicator
  int64_t calls = 0;      // of that rank's batch, on this communicator
};

/// Of an instance that is the last of its batches; none where no rank's end before it is known. Linear in the calls of
/// the batches.
std::optional<BatchStep> step_of(const Timeline& timeline, const Instance& instance);

/// The first call of any rank's batch on this communicator.
struct BatchBegin {
  int64_t number = 0;
  int64_t time_ns = 0;
};

/// Of an instance that is the last of its batches. Linear in the calls of the batches.
BatchBegin begin_of(const Timeline& timeline, const Instance& instance);

/// Calls that a stream, event or device synchronisation ended together with later ones: the profiler plugin would give
/// each its own end. Linear in the calls.
int64_t count_ended_with_later_ones(const Timeline& timeline);

/// How many of the group's instances are judged: all but those inside of batches.
int64_t count_judged(const Timeline& timeline, uint32_t group);

}  // namespace stalltrace::analysis
