// SPDX-License-Identifier: Apache-2.0
#include "analysis/rank_numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace stalltrace::analysis {
namespace {

constexpr size_t kRanksListed = 16;

std::string range_text(int32_t first, int32_t last) { return fmt::format("ranks {} to {}", first, last); }

}  // namespace

MissingRanks::MissingRanks(const std::set<int32_t>& present, int32_t world_size) : world_size_(world_size) {
  int32_t next = 0;
  const auto add = [&](int32_t end) {  // from `next` to before `end`
    for (int32_t rank = next; rank < end && first_.size() <= kRanksListed; ++rank) {
      first_.push_back(rank);
    }
    if (end > next) {
      count_ += end - next;
      last_ = end - 1;
    }
  };
  for (auto rank = present.lower_bound(0); rank != present.end() && *rank < world_size; ++rank) {
    add(*rank);
    next = *rank + 1;
  }
  add(world_size);
}

std::string MissingRanks::text() const {
  const bool one_range = int64_t{last_} - first() + 1 == count_;
  return count_ > static_cast<int64_t>(kRanksListed) && one_range ? range_text(first(), last_) : ranks_text(first_);
}

std::string ranks_text(std::vector<int32_t> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.size() == 1) {
    return fmt::format("rank {}", ranks[0]);
  }
  if (ranks.size() > 3 && ranks.back() - ranks.front() + 1 == static_cast<int32_t>(ranks.size())) {
    return range_text(ranks.front(), ranks.back());
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
