// SPDX-License-Identifier: Apache-2.0
// The true cost of a fault to the job, by the job's own clock: the log of rank 0's steps. No tracer is involved.
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

/// The lines of rankK.steps.jsonl; invalid lines (the last one of a killed rank) are left out.
std::vector<StepTime> read_steps(std::string_view jsonl);

/// The excess of the steps that a fault touched over the median of the others, counting only steps longer than nearly
/// all (95 %) of these; a step under way when the job was ended counts until then. nullopt with fewer than 10 other
/// steps.
std::optional<double> true_cost_ms(std::span<const StepTime> steps, std::span<const TimeRange> faults, bool completed,
                                   int64_t ended_ns);

}  // namespace stalltrace::lab
