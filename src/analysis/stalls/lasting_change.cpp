// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/lasting_change.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

/// Twice the rank of each value; equal ones share the mean of theirs.
std::vector<int64_t> doubled_ranks(std::span<const uint32_t> values) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](uint32_t i) { return values[i]; });
  std::vector<int64_t> ranks(values.size());
  for (size_t from = 0; from < order.size();) {
    size_t to = from + 1;
    while (to < order.size() && values[order[to]] == values[order[from]]) {
      ++to;
    }
    for (size_t i = from; i < to; ++i) {
      ranks[order[i]] = static_cast<int64_t>(from + to + 1);
    }
    from = to;
  }
  return ranks;
}

}  // namespace

std::optional<size_t> shorter_before(std::span<const uint32_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  const std::vector<int64_t> ranks = doubled_ranks(values);
  int64_t sum = 0;  // of the ranks, less what as many would have by chance: negative where they are shorter
  int64_t least = 0;
  size_t before = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    sum += ranks[i] - (count + 1);
    if (sum < least) {
      least = sum;
      before = i + 1;
    }
  }
  const auto size = static_cast<double>(count);
  const auto statistic = static_cast<double>(least);
  const double by_chance = 2 * std::exp(-6 * statistic * statistic / (size * size * size + size * size));
  return by_chance < kLastingChangeByChance ? std::optional(before) : std::nullopt;
}

}  // namespace stalltrace::analysis
