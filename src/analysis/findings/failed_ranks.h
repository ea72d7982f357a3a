// SPDX-License-Identifier: Apache-2.0
// Failed processes that no finding is about: without a note their job would look healthy.
#pragma once

#include "analysis/causes/decision.h"

namespace stalltrace::analysis {

/// Counts and notes ranks that failed when the others no longer needed them; if there are no findings at all, every
/// failed rank. Call it when the findings are known.
void note_failed_ranks(const AnalysisContext& context, Report& report);

}  // namespace stalltrace::analysis
