// SPDX-License-Identifier: Apache-2.0
// init_failure: jobs whose ranks did not meet, and communicators that could not be set up. They have no instances, so
// the search uses processes, set-up calls, and connections that were refused or never answered.
#pragma once

#include <set>
#include <vector>

#include "analysis/causes/set_up/unreached.h"
#include "analysis/timeline/timeline.h"
#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// At most one finding per job attempt. Reads network events only if a set-up failed or has not ended, or if some
/// started ranks called no collective. `called`: processes that are known to have called collectives, in addition to
/// those in `timeline`.
Result<std::vector<Finding>> find_init_failures(EventSource& source, Cluster& cluster, const Timeline& timeline,
                                                TimeRange range, const std::set<ProcessKey>& called);

}  // namespace stalltrace::analysis
