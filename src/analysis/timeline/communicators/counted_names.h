// SPDX-License-Identifier: Apache-2.0
// Communicators that were made before tracing began, and whose calls have a number because NCCL counted those before
// (Communicator::calls_before). What calls show can contradict that. Internal to the timeline.
#pragma once

#include <cstddef>
#include <vector>

#include "analysis/timeline/cluster.h"
#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// The hash of the calls of such a communicator is set to 0 where calls of one number do not fit together: they are
/// matched as those of communicators without names are. Returns the number of such communicators. Linear in the
/// sequences and communicators.
size_t forget_contradicted_names(const Cluster& cluster, std::vector<CallSequence>& sequences);

}  // namespace stalltrace::analysis
