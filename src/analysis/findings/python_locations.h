// SPDX-License-Identifier: Apache-2.0
// Where in their program the ranks of a finding were during its stalls.
#pragma once

#include <string>
#include <vector>

#include "analysis/findings/cause_groups.h"
#include "analysis/timeline/cluster.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds one line to each finding, from the `python_stack` samples that lie entirely inside one of its stalls, grouped
/// by location: "7 ranks in all_reduce (train.py:88), rank 3 in load_batch (data.py:212), reading FIFO /data/in", of
/// programs that are not Python "rank 3 in usleep, called by compute_step (train)". A
/// waiting rank is shown at the program's call of the library; an awaited rank is shown at the innermost line of the
/// program itself, with what it waits for. If the cause blames an awaited rank and most samples agree, its location is
/// added to the summary. At most kMostPythonStacks samples are kept, of each second of the stalls alike;
/// how many were not is a note.
Status add_python_locations(EventSource& source, const Cluster& cluster, std::vector<StallFinding>& findings,
                            std::vector<std::string>& notes);

}  // namespace stalltrace::analysis
