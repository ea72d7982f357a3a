// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/attempts/attempts.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "analysis/thresholds/timeline.h"
#include "analysis/timeline/attempts/generations.h"
#include "analysis/timeline/attempts/seats.h"

namespace stalltrace::analysis {
namespace {

/// Disjoint sets of members; some sets are known to be different jobs.
class Sets {
 public:
  explicit Sets(size_t members) : parents_(members), foes_(members) { std::iota(parents_.begin(), parents_.end(), 0U); }

  size_t root(size_t member) {
    while (parents_[member] != member) {
      parents_[member] = parents_[parents_[member]];
      member = parents_[member];
    }
    return member;
  }
  /// False if they are different jobs.
  bool unite(size_t a, size_t b) {
    a = root(a);
    b = root(b);
    if (a == b) {
      return true;
    }
    if (are_foes(a, b)) {
      return false;
    }
    parents_[b] = a;
    foes_[a].insert(foes_[a].end(), foes_[b].begin(), foes_[b].end());
    foes_[b] = {};
    return true;
  }
  void part(size_t a, size_t b) {
    foes_[root(a)].push_back(b);
    foes_[root(b)].push_back(a);
  }
  bool are_foes(size_t a, size_t b) {
    a = root(a);
    b = root(b);
    return std::ranges::any_of(foes_[a], [&](size_t foe) { return root(foe) == b; });
  }

 private:
  std::vector<size_t> parents_;
  std::vector<std::vector<size_t>> foes_;  // by root: members of other jobs
};

/// The facts about a set of processes that decide whether another one is part of the same job.
struct Job {
  size_t member = 0;  // any of its members
  Life life;
  std::set<size_t> hosts;
  std::set<std::pair<size_t, int32_t>> callers;  // host and pid of its processes that made calls
  std::set<int32_t> ranks;                       // job-wide ranks from launchers
  std::set<int32_t> own_ranks;                   // ranks that are unique among a communicator's processes

  [[nodiscard]] bool has_rank_of(const Job& other) const {
    return std::ranges::any_of(ranks, [&](int32_t rank) { return other.own_ranks.contains(rank); });
  }
};

class Finder {
 public:
  Finder(Cluster& cluster, const std::vector<CallSequence>& sequences, const std::vector<CommunicatorCall>& calls)
      : cluster_(cluster),
        lives_(lives_of(cluster, sequences, calls)),
        seats_(seats_of(cluster, sequences, calls, lives_)),
        sets_(cluster.members().size()),
        known_(cluster.members().size(), -1),
        called_(cluster.members().size()) {
    for (const CallSequence& sequence : sequences) {
      called_[sequence.member] = called_[sequence.member] || !sequence.calls.empty();
    }
  }

  void find() {
    join_by_communicators();
    join_by_launchers();
    number();
  }

 private:
  /// Joins by names that several communicators have first, the largest first; the others follow them.
  void join_by_communicators() {
    std::vector<std::span<const Seat>> names;
    for (size_t begin = 0; begin < seats_.size();) {
      size_t end = begin;
      while (end < seats_.size() && seats_[end].hash == seats_[begin].hash) {
        ++end;
      }
      names.push_back(std::span(seats_).subspan(begin, end - begin));
      begin = end;
    }
    std::vector<std::span<const Seat>> split;
    std::erase_if(names, [&](std::span<const Seat> seats) {
      const bool several = has_generations(cluster_, seats);
      if (several) {
        split.push_back(seats);
      }
      return several;
    });
    std::ranges::stable_sort(split, std::greater{}, &std::span<const Seat>::size);
    for (const std::span<const Seat> seats : split) {
      split_name(seats);
    }
    for (const std::span<const Seat> seats : names) {
      join_name(seats);
    }
  }

  void split_name(std::span<const Seat> seats) {
    for (const Seat& seat : seats) {
      known_[seat.member] =
          placed_.contains(sets_.root(seat.member)) ? static_cast<int32_t>(sets_.root(seat.member)) : -1;
    }
    const std::vector<Generation> generations = generations_of(cluster_, seats, known_);
    for (const Generation& generation : generations) {
      for (const Seat* seat : generation) {
        sets_.unite(generation.front()->member, seat->member);
      }
    }
    for (size_t i = 0; i < generations.size(); ++i) {
      placed_.insert(sets_.root(generations[i].front()->member));
      for (size_t j = 0; j < i; ++j) {
        sets_.part(generations[i].front()->member, generations[j].front()->member);
      }
    }
  }

  void join_name(std::span<const Seat> seats) {
    std::vector<size_t> apart;  // one member per job
    for (const Seat& seat : seats) {
      if (std::ranges::none_of(apart, [&](size_t other) { return sets_.unite(other, seat.member); })) {
        apart.push_back(seat.member);
      }
    }
  }

  /// Processes without a common communicator, such as those of a job's parallel groups, are one job if one launcher
  /// started them and they were alive together.
  void join_by_launchers() {
    std::map<size_t, Job> jobs;
    std::map<size_t, size_t> sizes;
    for (size_t i = 0; i < lives_.size(); ++i) {
      const Member& member = cluster_.members()[i];
      const size_t host = cluster_.clock().host(member.node_id);
      const size_t root = sets_.root(i);
      Job& job = jobs.try_emplace(root, Job{.member = root}).first->second;
      job.life.extend(lives_[i]);
      job.hosts.insert(host);
      if (called_[i]) {
        job.callers.emplace(host, member.pid);
      }
      if (member.rank && member.rank_from_launcher) {
        job.ranks.insert(*member.rank);
      }
      ++sizes[root];
    }
    std::map<std::tuple<std::string, int32_t, std::string>, std::vector<Job>> launched;
    for (auto& [root, job] : jobs) {
      const Member& member = cluster_.members()[root];
      if (job.ranks.size() > 1 && job.ranks.size() == sizes[root]) {
        job.own_ranks = job.ranks;
      }
      launched[{member.job_id, member.world_size.value_or(-1), member.rank_from_launcher ? "" : member.program}]
          .push_back(std::move(job));
    }
    for (auto& [launch, parts] : launched) {
      const int32_t world_size = std::get<int32_t>(launch);
      if (world_size > 0 && callers_of(parts) > static_cast<size_t>(world_size)) {  // a rank occurs twice: another job
        std::ranges::for_each(parts, [](Job& job) { job.own_ranks = job.callers.empty() ? job.own_ranks : job.ranks; });
      }
      std::vector<Job> joined;
      for (Job& job : parts) {
        join_launched(std::move(job), joined);
      }
    }
  }

  static size_t callers_of(const std::vector<Job>& jobs) {
    std::set<std::pair<size_t, int32_t>> callers;
    for (const Job& job : jobs) {
      callers.insert(job.callers.begin(), job.callers.end());
    }
    return callers.size();
  }

  /// Joins it with the job whose start is nearest.
  void join_launched(Job job, std::vector<Job>& others) {
    std::vector<Job*> fitting;
    for (Job& other : others) {
      if (!job.has_rank_of(other) && !other.has_rank_of(job) && alive_together(job, other)) {
        fitting.push_back(&other);
      }
    }
    std::ranges::stable_sort(fitting, {}, [&](const Job* other) {
      return std::llabs(other->life.time.from_ns / 2 - job.life.time.from_ns / 2);  // either may be far in the past
    });
    for (Job* other : fitting) {
      if (sets_.unite(other->member, job.member)) {
        other->life.extend(job.life);
        other->hosts.insert(job.hosts.begin(), job.hosts.end());
        other->ranks.insert(job.ranks.begin(), job.ranks.end());
        other->own_ranks.insert(job.own_ranks.begin(), job.own_ranks.end());
        return;
      }
    }
    others.push_back(std::move(job));
  }

  /// The clocks of the hosts are not aligned yet.
  static bool alive_together(const Job& a, const Job& b) {
    const bool one_host = a.hosts.size() == 1 && a.hosts == b.hosts;
    Life reach = a.life;
    if (!one_host && reach.time.to_ns < kForever - kClocksApartNs) {
      reach.time.to_ns += kClocksApartNs;
    }
    reach.time.from_ns -= one_host ? 0 : kClocksApartNs;
    return reach.meets(b.life);
  }

  void number() {
    std::map<size_t, int64_t> begins;
    for (size_t i = 0; i < lives_.size(); ++i) {
      const auto [found, fresh] = begins.try_emplace(sets_.root(i), lives_[i].time.from_ns);
      found->second = std::min(found->second, lives_[i].time.from_ns);
    }
    std::vector<std::pair<int64_t, size_t>> order;
    for (const auto& [root, begin_ns] : begins) {
      order.emplace_back(begin_ns, root);
    }
    std::ranges::sort(order);
    std::map<size_t, AttemptIndex> numbers;
    for (const auto& [begin_ns, root] : order) {
      numbers[root] = static_cast<AttemptIndex>(numbers.size());
    }
    std::vector<AttemptIndex> attempts;
    for (size_t i = 0; i < lives_.size(); ++i) {
      attempts.push_back(numbers[sets_.root(i)]);
    }
    cluster_.set_attempts(attempts);
  }

  Cluster& cluster_;
  std::vector<Life> lives_;
  std::vector<Seat> seats_;
  Sets sets_;
  std::set<size_t> placed_;     // roots of generations
  std::vector<int32_t> known_;  // by member: its generation's root, for one name at a time
  std::vector<bool> called_;    // by member: it made calls
};

}  // namespace

void find_attempts(Cluster& cluster, const std::vector<CallSequence>& sequences,
                   const std::vector<CommunicatorCall>& calls) {
  Finder(cluster, sequences, calls).find();
}

}  // namespace stalltrace::analysis
