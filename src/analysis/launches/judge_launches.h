// SPDX-License-Identifier: Apache-2.0
// Findings from numbers of launches, by reports of NCCL's RAS or from the ranks' memory: ranks that launched fewer
// calls than others of their communicator, or other ones, and processes that do not answer. A rank of a job that runs
// is behind for a moment as well, and a transfer that hangs shows in no count. What separates these is in
// docs/findings.md
// ("From NCCL's RAS").
#pragma once

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds findings and notes on the newest report of RAS in `source` to the report, whose other findings are known.
Status add_launches(EventSource& source, Report& report);

}  // namespace stalltrace::analysis
