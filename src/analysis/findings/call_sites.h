// SPDX-License-Identifier: Apache-2.0
// Where in the program the calls of a hang were made.
#pragma once

#include <vector>

#include "analysis/timeline/cluster.h"
#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds to each finding about a hang the call sites of its ranks' open calls: the callers in `stack`, without the
/// library's own function. Reads the calls around the hang's start again.
Status add_call_sites(EventSource& source, const Cluster& cluster, std::vector<Finding>& findings);

}  // namespace stalltrace::analysis
