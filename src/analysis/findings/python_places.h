// SPDX-License-Identifier: Apache-2.0
// Where in the Python program the ranks of a finding were during its stalls.
#pragma once

#include <vector>

#include "analysis/findings/cause_groups.h"
#include "analysis/timeline/cluster.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds to each finding, from the looks of `python_stack` that lie whole inside one of its stalls, one line that folds
/// its ranks: "7 ranks in all_reduce (train.py:88), rank 3 in load_batch (data.py:212), reading FIFO /data/in". A rank
/// that waits is where the program called the library; one that is waited for is in the innermost line of the program
/// itself, with what it waits for. To the summary of a cause that blames such a rank it adds where that one is, if most
/// looks agree.
Status add_python_places(EventSource& source, const Cluster& cluster, std::vector<StallFinding>& findings);

}  // namespace stalltrace::analysis
