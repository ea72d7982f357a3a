// SPDX-License-Identifier: Apache-2.0
// truth.json of a simulated job, in the form of a practice run's.
#pragma once

#include "lab/cluster/truth.h"
#include "lab/simulation/job.h"

namespace stalltrace::lab {

/// `nodes[]` has an entry for each rank, with the name of its node. What only a real run has is null or empty.
Truth truth_of(const simulation::Job& job);

}  // namespace stalltrace::lab
