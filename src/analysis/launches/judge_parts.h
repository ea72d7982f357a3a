// SPDX-License-Identifier: Apache-2.0
// The parts of the judgement of RAS's reports. Internal to analysis/launches.
#pragma once

#include <span>

#include "analysis/launches/ras_text.h"

namespace stalltrace::analysis {

/// Each judges the newest of `reports`, which are oldest first and not empty.

/// Processes that do not answer.
void judge_processes(std::span<const RasReportView> reports, LaunchVerdicts& verdicts);
/// Ranks that launched fewer calls than others, or other ones.
void judge_numbers(std::span<const RasReportView> reports, LaunchVerdicts& verdicts);
/// Errors that NCCL reported. After the others: what they found may have them as evidence.
void judge_errors(std::span<const RasReportView> reports, LaunchVerdicts& verdicts);

}  // namespace stalltrace::analysis
