// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/match_unknown.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "analysis/thresholds/timeline.h"

namespace stalltrace::analysis {
namespace {

/// Index of the call of `sequence` that is nearest to `time_ns`.
int64_t nearest(const CallSequence& sequence, int64_t time_ns) {
  const auto after = std::partition_point(sequence.calls.begin(), sequence.calls.end(),
                                          [&](const Call& call) { return call.arrival_ns < time_ns; });
  return std::min<int64_t>(after - sequence.calls.begin(), static_cast<int64_t>(sequence.calls.size()) - 1);
}

/// The time difference of two calls as one instance. Ranks complete together even if one arrives late, so the ends are
/// compared.
int64_t apart_ns(const Call& x, const Call& y) {
  const bool ended = x.end_ns() != kForever && y.end_ns() != kForever;
  return ended ? std::llabs(x.end_ns() - y.end_ns()) : std::llabs(x.arrival_ns - y.arrival_ns);
}

/// Mean difference if call i of `a` is call i + shift of `b`; maximal if the calls differ in kind.
double distance(const CallSequence& a, const CallSequence& b, int64_t shift) {
  const int64_t begin = std::max<int64_t>(0, -shift);
  const int64_t end =
      std::min<int64_t>(static_cast<int64_t>(a.calls.size()), static_cast<int64_t>(b.calls.size()) - shift);
  if (begin >= end) {
    return std::numeric_limits<double>::max();
  }
  const int64_t step = std::max<int64_t>(1, (end - begin) / kOffsetSamples);
  int64_t compared = 0;
  int64_t agreed = 0;
  double sum = 0;
  for (int64_t i = begin; i < end; i += step) {
    const Call& x = a.calls[static_cast<size_t>(i)];
    const Call& y = b.calls[static_cast<size_t>(i + shift)];
    ++compared;
    agreed += x.signature == y.signature ? 1 : 0;
    sum += static_cast<double>(apart_ns(x, y));
  }
  if (static_cast<double>(agreed) < kOffsetAgreement * static_cast<double>(compared)) {
    return std::numeric_limits<double>::max();
  }
  return sum / static_cast<double>(compared);
}

struct Match {
  double distance = std::numeric_limits<double>::max();
  int64_t shift = 0;
};

Match best_shift(const CallSequence& a, const CallSequence& b) {
  Match best;
  if (a.calls.empty() || b.calls.empty()) {
    return best;
  }
  const auto middle = static_cast<int64_t>(a.calls.size() / 2);
  const int64_t guess = nearest(b, a.calls[static_cast<size_t>(middle)].arrival_ns) - middle;
  for (int64_t shift = guess - kOffsetReach; shift <= guess + kOffsetReach; ++shift) {
    if (const double found = distance(a, b, shift); found < best.distance) {
      best = {found, shift};
    }
  }
  return best;
}

bool may_belong_together(const CallSequence& a, const CallSequence& b, const Cluster& cluster) {
  const Member& x = cluster.member(a.member);
  const Member& y = cluster.member(b.member);
  return a.member != b.member && !a.point_to_point && !b.point_to_point && x.attempt == y.attempt &&
         x.job_id == y.job_id && x.world_size == y.world_size && (!a.nranks || !b.nranks || *a.nranks == *b.nranks) &&
         (!a.comm_rank || !b.comm_rank || *a.comm_rank != *b.comm_rank);
}

}  // namespace

std::vector<std::vector<uint32_t>> match_unknown_sequences(std::vector<CallSequence>& all,
                                                           const std::vector<uint32_t>& sequences,
                                                           const Cluster& cluster) {
  std::vector<std::vector<uint32_t>> groups;
  for (const uint32_t index : sequences) {
    CallSequence& sequence = all[index];
    sequence.number_offset = -sequence.first_seq;
    Match best;
    std::vector<uint32_t>* home = nullptr;
    for (std::vector<uint32_t>& group : groups) {
      const bool taken = std::any_of(group.begin(), group.end(), [&](uint32_t other) {
        return !may_belong_together(all[other], sequence, cluster);
      });
      if (taken) {
        continue;
      }
      if (const Match match = best_shift(sequence, all[group[0]]); match.distance < best.distance) {
        best = match;
        home = &group;
      }
    }
    if (home == nullptr) {
      groups.push_back({index});
      continue;
    }
    sequence.number_offset += best.shift + all[home->front()].first_number();
    home->push_back(index);
  }
  return groups;
}

}  // namespace stalltrace::analysis
