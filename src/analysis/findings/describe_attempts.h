// SPDX-License-Identifier: Apache-2.0
// Job attempts for the report: who took part, from when to when, and how each ended.
#pragma once

#include <vector>

#include "analysis/stalls/hangs/job_ends.h"
#include "analysis/timeline/timeline.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// Only attempts whose processes made calls.
std::vector<JobAttempt> describe_attempts(const Cluster& cluster, const Timeline& timeline, const JobEnds& ends);

}  // namespace stalltrace::analysis
