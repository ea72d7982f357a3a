// SPDX-License-Identifier: Apache-2.0
// Simulated jobs as draws of a campaign: recorded in memory, explained, and scored as practice runs are. Nothing runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lab/cluster/campaign/result.h"
#include "lab/simulation/draw.h"
#include "lab/simulation/job.h"
#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::lab {

/// Analyses the rows of a recording.
using Explain = std::function<Result<Report>(EventSource&)>;

/// Job `number` of the seed: jobs with even numbers are healthy. With `only`: "healthy", the name of a fault or that of
/// a shape; all jobs are of that sort then (of a shape: both). ErrorKind::kUsage where there is no such thing.
Result<simulation::JobOptions> draw_simulated(uint64_t seed, int64_t number, std::string_view only,
                                              const simulation::DrawLimits& limits = {});

/// One line: seed, shape, size, how it is recorded, and what is wrong.
std::string text_of(const simulation::JobOptions& options);

struct ScoredJob {
  DrawResult result;
  Report report;
};

/// Plays the job, and the same job without its fault, by which the fault's true cost is known. A fault that never took
/// effect is a problem of the result. Errors are those of `explain`.
Result<ScoredJob> score_simulated(int64_t number, const simulation::JobOptions& options, const Explain& explain,
                                  const GateOf& gate_of);

}  // namespace stalltrace::lab
