// SPDX-License-Identifier: Apache-2.0
#include "analysis/launches/compare_launches.h"

#include <algorithm>
#include <map>

namespace stalltrace::analysis {
namespace {

/// Ranks with one number of launches of an operation.
struct Holders {
  std::set<int32_t> named;
  int64_t unnamed = 0;
  [[nodiscard]] int64_t size() const { return std::ssize(named) + unnamed; }
};
using Numbers = std::map<uint64_t, Holders>;

std::map<std::string, Numbers> differing_numbers(const RasComm& comm) {
  std::map<std::string, Numbers> all;
  for (const auto& [rank, reported] : comm.ranks) {
    for (const auto& [operation, count] : reported.launched) {
      all[operation][count].named.insert(rank);
    }
  }
  for (const auto& [operation, counts] : comm.unnamed) {
    for (const auto& [count, members] : counts) {
      all[operation][count].unnamed += members;
    }
  }
  std::erase_if(all, [](const auto& entry) { return entry.second.size() < 2; });
  return all;
}

using Counts = std::map<std::string, uint64_t>;  // of the operations that differ

/// Each rank's numbers, if all are named.
std::optional<std::map<int32_t, Counts>> numbers_by_rank(const std::map<std::string, Numbers>& differing) {
  std::map<int32_t, Counts> ranks;
  for (const auto& [operation, numbers] : differing) {
    for (const auto& [count, holders] : numbers) {
      if (holders.unnamed > 0) {
        return std::nullopt;
      }
      for (const int32_t rank : holders.named) {
        ranks[rank][operation] = count;
      }
    }
  }
  const bool whole =
      std::ranges::all_of(ranks, [&](const auto& entry) { return entry.second.size() == differing.size(); });
  return whole ? std::optional(std::move(ranks)) : std::nullopt;
}

uint64_t total(const Counts& counts) {
  uint64_t sum = 0;
  for (const auto& [operation, count] : counts) {
    sum += count;
  }
  return sum;
}

bool nowhere_above(const Counts& a, const Counts& b) {
  return std::ranges::all_of(a, [&](const auto& entry) { return entry.second <= b.at(entry.first); });
}

LaunchGap gap_of(const std::string& operation, const Numbers& numbers) {
  return {operation, numbers.begin()->first, std::next(numbers.begin())->first, numbers.rbegin()->first};
}

/// Ranks whose numbers differ in several operations: the same calls in one order have numbers that all rise together.
void compare_by_rank(const std::map<int32_t, Counts>& ranks, LaunchDifference& out) {
  const auto by_total = [](const auto& entry) { return total(entry.second); };
  const uint64_t lowest = total(std::ranges::min_element(ranks, {}, by_total)->second);
  std::map<Counts, std::set<int32_t>> sides;
  for (const auto& [rank, counts] : ranks) {
    (total(counts) == lowest ? out.away : out.named_came).insert(rank);
    sides[counts].insert(rank);
  }
  for (const auto& [counts, members] : sides) {
    for (const auto& [others, unused] : sides) {
      out.diverged = out.diverged || (!nowhere_above(counts, others) && !nowhere_above(others, counts));
    }
  }
  if (out.diverged) {
    const auto smallest = std::ranges::min_element(sides, {}, [](const auto& side) { return side.second.size(); });
    if (sides.size() == 2 && smallest->second.size() == 1 && ranks.size() > 2) {
      out.odd = *smallest->second.begin();
    }
  }
  out.came = std::ssize(out.named_came);
}

}  // namespace

std::optional<LaunchDifference> compare_launches(const RasComm& comm) {
  const std::map<std::string, Numbers> differing = differing_numbers(comm);
  if (differing.empty()) {
    return std::nullopt;
  }
  LaunchDifference out;
  for (const auto& [operation, numbers] : differing) {
    out.gaps.push_back(gap_of(operation, numbers));
  }
  if (const auto ranks = numbers_by_rank(differing)) {
    compare_by_rank(*ranks, out);
    return out;
  }
  // Of a report in text: those behind have to be the same in each operation, else who is behind is not clear.
  const Holders& lowest = differing.begin()->second.begin()->second;
  const bool same = std::ranges::all_of(differing, [&](const auto& entry) {
    return entry.second.begin()->second.named == lowest.named && entry.second.begin()->second.unnamed == lowest.unnamed;
  });
  const Numbers& numbers = differing.begin()->second;
  int64_t all = 0;
  for (const auto& [count, holders] : numbers) {
    all += holders.size();
    if (&holders != &lowest) {
      out.named_came.insert(holders.named.begin(), holders.named.end());
    }
  }
  out.away = same ? lowest.named : std::set<int32_t>();
  out.unnamed_away = same ? lowest.unnamed : lowest.size();
  out.came = all - lowest.size();
  return out;
}

}  // namespace stalltrace::analysis
