// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/rank/chance.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/thresholds/ranks.h"

namespace stalltrace::analysis {
namespace {

/// The communicators, or pairs, that a rank has calls on.
std::set<uint32_t> groups_of(const AnalysisContext& context, MemberIndex member) {
  std::set<uint32_t> groups;
  for (const uint32_t sequence : context.timeline.sequences_of(member)) {
    groups.insert(context.timeline.sequences()[sequence].group);
  }
  return groups;
}

/// Ranks of the judged job attempt.
int64_t ranks_of(const AnalysisContext& context) {
  return std::ranges::count_if(context.cluster.members(),
                               [&](const Member& member) { return context.concerns(member); });
}

/// A stall of any rank in a collective that the examined one takes part in, as a sample of a random variable:
/// `excess_ns` is the part of it that is the examined rank's (all or nothing) less the part that is any rank's if all
/// that take part are last equally often.
struct LatenessSample {
  int64_t from_ns = 0;
  double lost_ns = 0;
  double excess_ns = 0;
};

/// Twice the covariance of samples that are next to each other: the collectives of one step are late for one reason.
/// What the rank has of all stalls of that time, because it is late all the time, is no covariance.
double covariance(const std::vector<LatenessSample>& samples) {
  std::vector<double> lost(samples.size() + 1);
  std::vector<double> excess(samples.size() + 1);
  for (size_t i = 0; i < samples.size(); ++i) {
    lost[i + 1] = lost[i] + samples[i].lost_ns;
    excess[i + 1] = excess[i] + samples[i].excess_ns;
  }
  const auto scatter = [&](size_t i) {
    const size_t from = i - std::min(i, kLateAround);
    const size_t to = std::min(samples.size(), i + kLateAround + 1);
    const double around = lost[to] - lost[from];
    return around <= 0 ? 0 : samples[i].excess_ns - samples[i].lost_ns * (excess[to] - excess[from]) / around;
  };
  double sum = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t apart = 1; apart <= kLateRun && i + apart < samples.size(); ++apart) {
      const double weight = 1 - static_cast<double>(apart) / static_cast<double>(kLateRun + 1);
      sum += 2 * weight * scatter(i) * scatter(i + apart);
    }
  }
  return sum;
}

/// How far the lateness of the one exceeds that of the other, in standard deviations, if each stall of the two is of
/// one of them by equal chances.
double deviations_between(const CauseGroup& group, const CauseGroup& other) {
  std::vector<LatenessSample> samples;
  double excess_ns = 0;
  double independent = 0;
  for (const CauseGroup* each : {&group, &other}) {
    for (const Stall* stall : each->stalls) {
      const auto lost_ns = static_cast<double>(stall->lost_ns);
      const double excess = (each == &group ? 0.5 : -0.5) * lost_ns;
      samples.push_back({stall->window.from_ns, lost_ns, excess});
      excess_ns += excess;
      independent += lost_ns * lost_ns / 4;
    }
  }
  std::ranges::sort(samples, {}, &LatenessSample::from_ns);
  return independent <= 0 ? 0 : excess_ns / std::sqrt(independent + std::max(0.0, covariance(samples)));
}

/// How far the group's part of all lateness exceeds the part that chance gives one rank, in standard deviations.
double deviations(const AnalysisContext& context, const CauseGroup& group, const std::vector<CauseGroup>& all) {
  const std::set<uint32_t> takes_part = groups_of(context, group.location.culprit);
  std::vector<LatenessSample> samples;
  double excess_ns = 0;
  double independent = 0;
  for (const CauseGroup& other : all) {
    for (const Stall* stall : other.stalls) {
      if (&other != &group && !takes_part.contains(stall->group)) {
        continue;
      }
      const size_t ranks = std::max<size_t>(2, context.timeline.groups()[stall->group].sequences.size());
      const double chance = 1 / static_cast<double>(ranks);
      const auto lost_ns = static_cast<double>(stall->lost_ns);
      const double excess = lost_ns * ((&other == &group ? 1 : 0) - chance);
      samples.push_back({stall->window.from_ns, lost_ns, excess});
      excess_ns += excess;
      independent += lost_ns * lost_ns * (1 - chance) * chance;
    }
  }
  if (independent <= 0) {
    return 0;
  }
  std::ranges::sort(samples, {}, &LatenessSample::from_ns);
  return excess_ns / std::sqrt(independent + std::max(0.0, covariance(samples)));
}

}  // namespace

std::vector<bool> late_by_chance(const AnalysisContext& context, const std::vector<CauseGroup>& groups) {
  int64_t total_ns = 0;
  for (const CauseGroup& group : groups) {
    total_ns += group.lost.total_ns();
  }
  const int64_t ranks = ranks_of(context);
  std::vector<bool> by_chance;
  for (const CauseGroup& group : groups) {
    int64_t runner_up_ns = 0;
    for (const CauseGroup& other : groups) {
      runner_up_ns = ranks > 2 && &other != &group ? std::max(runner_up_ns, other.lost.total_ns()) : runner_up_ns;
    }
    by_chance.push_back(share_of(group.lost.total_ns(), total_ns - runner_up_ns) < kLateDominance ||
                        deviations(context, group, groups) < kLateDeviations);
  }
  return by_chance;
}

std::vector<bool> alternates_with_another(const std::vector<CauseGroup>& groups) {
  std::vector<bool> alternates;
  for (const CauseGroup& group : groups) {
    const CauseGroup* other = nullptr;
    for (const CauseGroup& each : groups) {
      if (&each != &group && (other == nullptr || each.lost.total_ns() > other->lost.total_ns())) {
        other = &each;
      }
    }
    alternates.push_back(other != nullptr && deviations_between(group, *other) < kLateDeviations);
  }
  return alternates;
}

}  // namespace stalltrace::analysis
