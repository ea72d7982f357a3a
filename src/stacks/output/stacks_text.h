// SPDX-License-Identifier: Apache-2.0
// Stacks as text for people, and as JSON for programs (docs/cli.md has its fields). Text is printable, whatever names
// the processes have.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "stacks/rank_stacks.h"

namespace stalltrace::stacks {

/// First a line for each job that folds its ranks, where there is more than one rank; then every process.
std::string stacks_text(std::span<const RankStacks> ranks);

nlohmann::ordered_json stacks_json(std::span<const RankStacks> ranks);

}  // namespace stalltrace::stacks
