// SPDX-License-Identifier: Apache-2.0
// Ranks whose processes failed though no finding is about it: a reader must not take their job for healthy.
#pragma once

#include "analysis/causes/decision.h"

namespace stalltrace::analysis {

/// Counts and notes ranks that failed after the others had no need of them any more; where there are no findings at
/// all, every rank that failed. To be called when the findings are known.
void note_failed_ranks(const AnalysisContext& context, Report& report);

}  // namespace stalltrace::analysis
