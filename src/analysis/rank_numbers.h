// SPDX-License-Identifier: Apache-2.0
// Numbers of ranks: which are missing, and as text.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace stalltrace::analysis {

/// The ranks from 0 to `world_size` - 1 that are not in `present`, at most 65,536 of them.
std::vector<int32_t> missing_ranks(const std::set<int32_t>& present, int32_t world_size);

/// "rank 1", "ranks 0 and 2", "ranks 0 to 6"; at most 16 that do not follow each other are listed. Not for an empty
/// list.
std::string ranks_text(std::vector<int32_t> ranks);

}  // namespace stalltrace::analysis
