// SPDX-License-Identifier: Apache-2.0
// init_failure: jobs whose ranks did not meet, and communicators that could not be set up. No collective was called on
// them, so that this looks at processes, set-up calls and connections that were refused or never answered, not at
// instances.
#pragma once

#include <set>
#include <vector>

#include "analysis/causes/set_up/unreached.h"
#include "analysis/timeline/timeline.h"
#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// At most one finding for each job attempt. Reads network events only where a set-up failed or has not ended, or where
/// ranks were started that called no collective. `called`: processes that are known to have, beside those in
/// `timeline`.
Result<std::vector<Finding>> find_init_failures(EventSource& source, Cluster& cluster, const Timeline& timeline,
                                                TimeRange range, const std::set<ProcessKey>& called);

}  // namespace stalltrace::analysis
