// SPDX-License-Identifier: Apache-2.0
// What a fault really cost the job, by the job's own clock: the log of rank 0's steps. No tracer is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lab/cluster/truth.h"

namespace stalltrace::lab {

struct StepTime {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

/// The lines of rankK.steps.jsonl; a line that is none (the last one of a killed rank) is left out.
std::vector<StepTime> read_steps(std::string_view jsonl);

/// By how much the steps that a fault touched took longer than the middle one of the others, where they took longer
/// than nearly all (95 %) of these; a step that was under way when the job was ended counts until then. Nothing where
/// fewer than 10 other steps say what is usual.
std::optional<double> true_cost_ms(std::span<const StepTime> steps, std::span<const Interval> faults, bool completed,
                                   int64_t ended_ns);

}  // namespace stalltrace::lab
