// SPDX-License-Identifier: Apache-2.0
// init_failure: communicators that could not be set up. No collective was called on them, so that this looks at the
// set-up calls and at connections that were refused or never answered, not at instances.
#pragma once

#include <vector>

#include "analysis/timeline/timeline.h"
#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// At most one finding; reads network events only when a set-up failed or has not ended.
Result<std::vector<Finding>> find_init_failures(EventSource& source, Cluster& cluster, const Timeline& timeline,
                                                TimeRange range);

}  // namespace stalltrace::analysis
