// SPDX-License-Identifier: Apache-2.0
// Jobs drawn from a seed: shape, size, timing, and how they are recorded. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lab/simulation/job_options.h"

namespace stalltrace::simulation {

struct DrawLimits {
  int fewest_ranks = 8;
  int most_ranks = 64;
  int fewest_steps = 24;
  int most_steps = 60;
  bool cut = true;  // half of the recordings end before the job
};

/// A healthy job of the shape, or of a drawn one.
JobOptions draw_healthy(uint64_t seed, const DrawLimits& limits = {}, std::string_view shape = {});

/// The same job with a fault, of a drawn kind if none is given. Loud doses: a rank that is late takes 15 or 80 ms a
/// step.
JobOptions draw_faulty(uint64_t seed, std::optional<FaultKind> kind = std::nullopt, const DrawLimits& limits = {},
                       std::string_view shape = {});

}  // namespace stalltrace::simulation
