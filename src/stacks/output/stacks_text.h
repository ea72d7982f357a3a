// SPDX-License-Identifier: Apache-2.0
// Stacks as text, and as JSON (docs/cli.md lists its fields). Text is printable, whatever names the processes have.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "stacks/rank_stacks.h"

namespace stalltrace::stacks {

/// First a line for each job with several ranks that folds them; then every process.
std::string stacks_text(std::span<const RankStacks> ranks);

nlohmann::ordered_json stacks_json(std::span<const RankStacks> ranks);

/// A thread as the former has it.
nlohmann::ordered_json thread_json(const ThreadStack& thread);

}  // namespace stalltrace::stacks
