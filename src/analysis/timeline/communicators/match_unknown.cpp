// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/communicators/match_unknown.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "analysis/thresholds/matching.h"
#include "analysis/thresholds/timeline.h"
#include "base/numbers/median.h"

namespace stalltrace::analysis {
namespace {

/// Index of the call of `sequence` that is nearest to `time_ns`.
int64_t nearest(const CallSequence& sequence, int64_t time_ns) {
  const auto after = std::partition_point(sequence.calls.begin(), sequence.calls.end(),
                                          [&](const Call& call) { return call.arrival_ns < time_ns; });
  return std::min<int64_t>(after - sequence.calls.begin(), static_cast<int64_t>(sequence.calls.size()) - 1);
}

bool have_ends(const Call& x, const Call& y) { return x.end_ns() != kForever && y.end_ns() != kForever; }

/// The time difference of two calls as one instance. Ranks complete together even if one arrives late, so the ends are
/// compared.
int64_t apart_ns(const Call& x, const Call& y) {
  return have_ends(x, y) ? std::llabs(x.end_ns() - y.end_ns()) : std::llabs(x.arrival_ns - y.arrival_ns);
}

/// Visits a bounded number of the pairs of calls in which call i of `a` is call i + shift of `b`. False if there is
/// none.
template <typename Visit>
bool for_each_pair(const CallSequence& a, const CallSequence& b, int64_t shift, Visit visit) {
  const int64_t begin = std::max<int64_t>(0, -shift);
  const int64_t end =
      std::min<int64_t>(static_cast<int64_t>(a.calls.size()), static_cast<int64_t>(b.calls.size()) - shift);
  const int64_t step = std::max<int64_t>(1, (end - begin) / kOffsetSamples);
  for (int64_t i = begin; i < end; i += step) {
    visit(a.calls[static_cast<size_t>(i)], b.calls[static_cast<size_t>(i + shift)]);
  }
  return begin < end;
}

/// Mean difference if call i of `a` is call i + shift of `b`; maximal if the calls differ in kind. A rank may arrive
/// any time late at a call that does not end: beyond what may still match, that counts no more.
double distance(const CallSequence& a, const CallSequence& b, int64_t shift) {
  int64_t compared = 0;
  int64_t agreed = 0;
  double sum = 0;
  const bool any = for_each_pair(a, b, shift, [&](const Call& x, const Call& y) {
    ++compared;
    agreed += x.signature == y.signature ? 1 : 0;
    const int64_t most_ns = have_ends(x, y) ? kForever : kMatchedEndsApartNs + kMatchedUncertainNs;
    sum += static_cast<double>(std::min(apart_ns(x, y), most_ns));
  });
  if (!any || static_cast<double>(agreed) < kOffsetAgreement * static_cast<double>(compared)) {
    return std::numeric_limits<double>::max();
  }
  return sum / static_cast<double>(compared);
}

struct Shift {
  double distance = std::numeric_limits<double>::max();
  int64_t calls = 0;
};

/// The middle of the shorter one is surely in the time of the longer one.
Shift best_shift(const CallSequence& a, const CallSequence& b) {
  if (a.calls.size() > b.calls.size()) {
    Shift turned = best_shift(b, a);
    turned.calls = -turned.calls;
    return turned;
  }
  Shift best;
  if (a.calls.empty()) {
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

/// A group that a sequence may belong to, or a sequence that it may be together with.
struct Candidate {
  size_t index = 0;
  int64_t shift = 0;
  int64_t apart_ns = 0;  // the middle difference: one call that a rank came late to, and that never ended, is no sign
  int64_t uncertain_ns = 0;  // by how much that may be wrong

  [[nodiscard]] bool near_enough() const { return apart_ns <= kMatchedEndsApartNs + uncertain_ns; }
};

Candidate candidate_of(const CallSequence& a, const CallSequence& b, const Cluster& cluster, int64_t shift) {
  std::vector<int64_t> differences;
  size_t by_ends = 0;
  for_each_pair(a, b, shift, [&](const Call& x, const Call& y) {
    if (x.present && y.present) {
      differences.push_back(apart_ns(x, y));
      by_ends += have_ends(x, y) ? 1 : 0;
    }
  });
  if (differences.empty()) {
    return {.shift = shift, .apart_ns = kForever};
  }
  const bool certain = 2 * by_ends >= differences.size() &&
                       cluster.clock().comparable(cluster.member(a.member).node_id, cluster.member(b.member).node_id);
  return {.shift = shift,
          .apart_ns = lower_median(std::move(differences)),
          .uncertain_ns = certain ? 0 : kMatchedUncertainNs};
}

/// The one that is near enough and clearly the nearest, whatever the differences really are; null if there is none.
const Candidate* clearly_nearest(std::vector<Candidate>& candidates) {
  std::ranges::stable_sort(candidates, {}, &Candidate::apart_ns);
  if (candidates.empty() || !candidates[0].near_enough()) {
    return nullptr;
  }
  const Candidate& first = candidates[0];
  const bool clear = std::all_of(candidates.begin() + 1, candidates.end(), [&](const Candidate& other) {
    return other.apart_ns >= kMatchContrast * std::max(first.apart_ns, kMatchScatterNs) &&
           other.apart_ns - first.apart_ns >= first.uncertain_ns + other.uncertain_ns;
  });
  return clear ? &first : nullptr;
}

bool of_one_job(const Member& x, const Member& y) {
  return x.attempt == y.attempt && x.job_id == y.job_id && x.world_size == y.world_size;
}

bool may_belong_together(const CallSequence& a, const CallSequence& b, const Cluster& cluster) {
  return a.member != b.member && !a.point_to_point && !b.point_to_point &&
         of_one_job(cluster.member(a.member), cluster.member(b.member)) &&
         (a.nccl_hash == 0 || b.nccl_hash == 0 || a.nccl_hash == b.nccl_hash) &&
         (!a.nranks || !b.nranks || *a.nranks == *b.nranks) &&
         (!a.comm_rank || !b.comm_rank || *a.comm_rank != *b.comm_rank);
}

bool has_other_ranks(MemberIndex member, const Cluster& cluster) {
  const Member& self = cluster.member(member);
  return self.world_size ? *self.world_size > 1 : std::ranges::any_of(cluster.members(), [&](const Member& other) {
    return &other != &self && of_one_job(other, self);
  });
}

/// Puts one sequence after the other into a group.
class Matcher {
 public:
  Matcher(std::vector<CallSequence>& all, const std::vector<uint32_t>& sequences, const Cluster& cluster)
      : all_(all), cluster_(cluster) {
    for (const uint32_t index : sequences) {
      of_member_[all[index].member].push_back(index);
    }
  }

  void add(uint32_t index) {
    CallSequence& sequence = all_[index];
    sequence.number_offset = -sequence.first_seq;
    std::vector<Candidate> candidates = groups_for(sequence);
    const Candidate* home = clearly_nearest(candidates);
    const uint32_t first = home == nullptr ? index : groups_[home->index].front();
    // Of the communicators of these two ranks, others may have no group yet.
    if (home == nullptr || !is_clearly_nearest(index, first) || !is_clearly_nearest(first, index)) {
      note(index, groups_.size());
      groups_.push_back({index});
      return;
    }
    sequence.number_offset += home->shift + all_[first].first_number();
    note(index, home->index);
    groups_[home->index].push_back(index);
  }

  UnknownMatches matches() && {
    UnknownMatches matches;
    for (const std::vector<uint32_t>& group : groups_) {
      const CallSequence& sequence = all_[group.front()];
      if (group.size() == 1 && !sequence.point_to_point && sequence.nranks.value_or(2) > 1 &&
          has_other_ranks(sequence.member, cluster_)) {
        matches.unmatched.push_back(group.front());
      }
    }
    matches.nccl_hashes.resize(groups_.size());
    for (const auto& [key, groups] : of_hash_) {
      const size_t group = *groups.begin();
      const bool all = std::ranges::all_of(
          groups_[group], [&, hash = key.second](uint32_t sequence) { return all_[sequence].nccl_hash == hash; });
      matches.nccl_hashes[group] = groups.size() == 1 && all ? key.second : 0;
    }
    matches.groups = std::move(groups_);
    return matches;
  }

 private:
  /// NCCL's hash, in a job attempt.
  using HashKey = std::pair<AttemptIndex, CommHash>;
  [[nodiscard]] HashKey hash_key(const CallSequence& sequence) const {
    return {cluster_.attempt_of(sequence.member), sequence.nccl_hash};
  }
  void note(uint32_t index, size_t group) {
    if (all_[index].nccl_hash != 0 && !all_[index].point_to_point) {
      of_hash_[hash_key(all_[index])].insert(group);
    }
  }

  /// Those that make the sequence's calls; none where more than are compared may have its rank.
  [[nodiscard]] std::vector<Candidate> groups_for(const CallSequence& sequence) const {
    std::vector<size_t> open;
    const auto identified = of_hash_.find(hash_key(sequence));
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (identified != of_hash_.end() && !identified->second.contains(group)) {
        continue;
      }
      if (std::ranges::all_of(groups_[group],
                              [&](uint32_t other) { return may_belong_together(all_[other], sequence, cluster_); })) {
        open.push_back(group);
      }
      if (open.size() > kMostMatchCandidates) {
        return {};
      }
    }
    std::vector<Candidate> candidates;
    for (const size_t group : open) {
      compare(sequence, all_[groups_[group].front()], group, candidates);
    }
    return candidates;
  }

  /// True if of all sequences of the rank that has `to`, this one is clearly the nearest to `from`.
  [[nodiscard]] bool is_clearly_nearest(uint32_t from, uint32_t to) const {
    const std::vector<uint32_t>& others = of_member_.at(all_[to].member);
    if (others.size() > kMostMatchCandidates) {
      return false;
    }
    std::vector<Candidate> candidates;
    for (const uint32_t other : others) {
      if (may_belong_together(all_[from], all_[other], cluster_)) {
        compare(all_[from], all_[other], other, candidates);
      }
    }
    const Candidate* nearest = clearly_nearest(candidates);
    return nearest != nullptr && nearest->index == to;
  }

  void compare(const CallSequence& a, const CallSequence& b, size_t index, std::vector<Candidate>& candidates) const {
    if (const Shift best = best_shift(a, b); best.distance != std::numeric_limits<double>::max()) {
      candidates.push_back(candidate_of(a, b, cluster_, best.calls));
      candidates.back().index = index;
    }
  }

  std::vector<CallSequence>& all_;
  const Cluster& cluster_;
  std::map<MemberIndex, std::vector<uint32_t>> of_member_;
  std::vector<std::vector<uint32_t>> groups_;
  std::map<HashKey, std::set<size_t>> of_hash_;  // groups with sequences of that hash
};

}  // namespace

UnknownMatches match_unknown_sequences(std::vector<CallSequence>& all, const std::vector<uint32_t>& sequences,
                                       const Cluster& cluster) {
  Matcher matcher(all, sequences, cluster);
  for (const uint32_t index : sequences) {
    matcher.add(index);
  }
  return std::move(matcher).matches();
}

bool may_be_numbered_alike(const CallSequence& a, const CallSequence& b, const Cluster& cluster) {
  std::vector<int64_t> differences;
  int64_t compared = 0;
  int64_t agreed = 0;
  for_each_pair(a, b, a.first_number() - b.first_number(), [&](const Call& x, const Call& y) {
    if (!x.present || !y.present) {
      return;
    }
    ++compared;
    agreed += x.signature == y.signature ? 1 : 0;
    if (have_ends(x, y)) {
      differences.push_back(apart_ns(x, y));
    }
  });
  const bool comparable =
      cluster.clock().comparable(cluster.member(a.member).node_id, cluster.member(b.member).node_id);
  const int64_t most_ns = kMatchedEndsApartNs + (comparable ? 0 : kMatchedUncertainNs);
  return 2 * agreed >= compared && (differences.empty() || lower_median(std::move(differences)) <= most_ns);
}

void doubt_whole_groups(const std::vector<uint32_t>& unmatched, const std::vector<CallSequence>& all,
                        const Cluster& cluster, std::vector<Group>& groups) {
  for (Group& group : groups) {
    if (unmatched.empty() || group.name() != 0 || group.point_to_point || !group.all_took_part) {
      continue;
    }
    const Member& member = cluster.member(all[group.sequences.front()].member);
    if (member.world_size && static_cast<int64_t>(group.sequences.size()) >= *member.world_size) {
      continue;
    }
    const auto takes_part = [&](MemberIndex rank) {
      return std::ranges::any_of(group.sequences, [&](uint32_t sequence) { return all[sequence].member == rank; });
    };
    group.all_took_part = std::ranges::none_of(unmatched, [&](uint32_t sequence) {
      const MemberIndex rank = all[sequence].member;
      return of_one_job(cluster.member(rank), member) && !takes_part(rank);
    });
  }
}

}  // namespace stalltrace::analysis
