// SPDX-License-Identifier: Apache-2.0
// late_rank by the durations that NCCL's Inspector measured on the GPU. A collective ends on all ranks together, so
// that the rank whose part in it is short came last, and the others waited for it. When calls began is mostly not
// known, nor what the rank did before.
#pragma once

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds findings and notes on the nodes of the Inspector to the report, whose other findings are known.
Status add_inspector(EventSource& source, Report& report);

}  // namespace stalltrace::analysis
