// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/rhythm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/thresholds/stalls.h"
#include "base/clock.h"
#include "base/numbers/median.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// Whether a gap is a small multiple of `every`, give or take `slack` for each.
bool fits(int64_t gap, int64_t every, int64_t slack) {
  const int64_t times = std::max<int64_t>(1, (gap + every / 2) / every);
  return times <= kMostMissedStalls + 1 && std::abs(gap - times * every) <= times * slack;
}

/// The chance that a gap fits where each instance stalls with probability `rate`, independently of the others.
double chance_of_fit(double rate, int64_t every, int64_t slack) {
  const auto before = [&](int64_t gap) { return 1 - std::pow(1 - rate, static_cast<double>(gap)); };  // at most `gap`
  double chance = 0;
  for (int64_t times = 1; times <= kMostMissedStalls + 1; ++times) {
    chance += before(times * (every + slack)) - before(std::max<int64_t>(times * (every - slack) - 1, 0));
  }
  return std::min(chance, 1.0);
}

/// The chance of at least `hits` of `all` with probability `chance` each (the bound of Chernoff and Hoeffding).
double chance_of_hits(int64_t hits, int64_t all, double chance) {
  const double share = static_cast<double>(hits) / static_cast<double>(all);
  if (share <= chance) {
    return 1;
  }
  const double other = share < 1 ? (1 - share) * std::log((1 - share) / (1 - chance)) : 0;
  return std::exp(-static_cast<double>(all) * (share * std::log(share / chance) + other));
}

std::vector<int64_t> gaps_of(std::span<const RhythmStall> stalls, int64_t RhythmStall::*field) {
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < stalls.size(); ++i) {
    gaps.push_back(stalls[i].*field - stalls[i - 1].*field);
  }
  return gaps;
}

void find_period(std::span<const RhythmStall> stalls, int64_t instances, Rhythm& rhythm) {
  const std::vector<int64_t> gaps = gaps_of(stalls, &RhythmStall::number);
  const int64_t every = median(gaps);
  if (every < 2) {
    return;
  }
  const double rate = static_cast<double>(stalls.size()) / static_cast<double>(instances);
  const auto all = static_cast<int64_t>(gaps.size());
  for (const int64_t slack : {int64_t{0}, std::max<int64_t>(1, every / 10)}) {
    const int64_t hits = std::ranges::count_if(gaps, [&](int64_t gap) { return fits(gap, every, slack); });
    // The period is the data's own: each of those that were possible would have been found as well.
    const double chance = static_cast<double>(every) * chance_of_hits(hits, all, chance_of_fit(rate, every, slack));
    if (static_cast<double>(hits) >= kRhythmShare * static_cast<double>(all) && chance < kRhythmByChance) {
      rhythm.every = every;
      rhythm.about = slack > 0;
      rhythm.period_ns = median(gaps_of(stalls, &RhythmStall::from_ns));
      return;
    }
  }
}

/// The chance that `stalls` random instances lie in a part of all of them.
double chance_of_part(int64_t part, int64_t all, size_t stalls) {
  return std::pow(static_cast<double>(part) / static_cast<double>(all), static_cast<double>(stalls));
}

/// What also ended is an event, and began nothing.
void find_beginning(std::span<const RhythmStall> stalls, int64_t first, int64_t last, Rhythm& rhythm) {
  const int64_t before = stalls.front().number - first;
  const int64_t since = last - stalls.front().number + 1;
  const int64_t lasted = stalls.back().number - stalls.front().number + 1;
  if (before >= kFewestBeforeABeginning && chance_of_part(since, last - first + 1, stalls.size()) < kRhythmByChance &&
      chance_of_part(lasted, since, stalls.size()) >= kRhythmByChance) {
    rhythm.since_ns = stalls.front().from_ns;
    rhythm.before = before;
  }
}

std::string_view ordinal(int64_t number) {
  const int64_t tens = number / 10 % 10;
  const int64_t ones = number % 10;
  return tens == 1 || ones == 0 || ones > 3 ? "th" : ones == 1 ? "st" : ones == 2 ? "nd" : "rd";
}

}  // namespace

std::optional<Rhythm> find_rhythm(std::span<const RhythmStall> stalls, int64_t first, int64_t last) {
  if (static_cast<int64_t>(stalls.size()) < kFewestForRhythm || last <= first || stalls.front().number < first ||
      stalls.back().number > last) {
    return std::nullopt;
  }
  Rhythm rhythm;
  find_period(stalls, stalls.back().number - stalls.front().number + 1, rhythm);
  find_beginning(stalls, first, last, rhythm);
  if (!rhythm.every && !rhythm.since_ns) {
    return std::nullopt;
  }
  std::vector<int64_t> lost;
  std::ranges::transform(stalls, std::back_inserter(lost), &RhythmStall::lost_ns);
  rhythm.worst_ns = std::ranges::max(lost);
  rhythm.typical_ns = median(std::move(lost));
  return rhythm;
}

std::string rhythm_text(const Rhythm& rhythm) {
  std::string text;
  if (rhythm.every) {
    text = fmt::format("{}every {}{} collective ({})", rhythm.about ? "about " : "", *rhythm.every,
                       ordinal(*rhythm.every), format_duration(*rhythm.period_ns));
  }
  if (rhythm.since_ns) {
    text += fmt::format("{}since {}, after {} collectives without", text.empty() ? "" : ", ",
                        format_utc(*rhythm.since_ns), rhythm.before);
  }
  return text + fmt::format("; typically {}, at most {}", format_duration(rhythm.typical_ns),
                            format_duration(rhythm.worst_ns));
}

}  // namespace stalltrace::analysis
