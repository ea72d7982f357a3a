// SPDX-License-Identifier: Apache-2.0
#include "analysis/rank_numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace stalltrace::analysis {
namespace {

constexpr size_t kRanksListed = 16;
constexpr size_t kMostMissing = 65'536;  // a number of ranks is what a recording says, whatever it is

}  // namespace

std::vector<int32_t> missing_ranks(const std::set<int32_t>& present, int32_t world_size) {
  std::vector<int32_t> missing;
  for (int32_t rank = 0; rank < world_size && missing.size() < kMostMissing; ++rank) {
    if (!present.contains(rank)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

std::string ranks_text(std::vector<int32_t> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.size() == 1) {
    return fmt::format("rank {}", ranks[0]);
  }
  if (ranks.size() > 3 && ranks.back() - ranks.front() + 1 == static_cast<int32_t>(ranks.size())) {
    return fmt::format("ranks {} to {}", ranks.front(), ranks.back());
  }
  if (ranks.size() > kRanksListed) {
    ranks.resize(kRanksListed);
    return fmt::format("ranks {}, ...", fmt::join(ranks, ", "));
  }
  const int32_t last = ranks.back();
  ranks.pop_back();
  return fmt::format("ranks {} and {}", fmt::join(ranks, ", "), last);
}

}  // namespace stalltrace::analysis
