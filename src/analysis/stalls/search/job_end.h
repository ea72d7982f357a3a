// SPDX-License-Identifier: Apache-2.0
// Phase of the stall search: jobs that ended because ranks left them while no other rank was inside a collective.
#pragma once

#include "analysis/stalls/search/search_state.h"

namespace stalltrace::analysis {

/// Must run last: it adds the job ends that the other phases, which need an instance with waiting ranks, did not find.
void judge_job_ends(SearchState& search);

}  // namespace stalltrace::analysis
