// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/attempts/generations.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analysis/thresholds/timeline.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kComparedSeats = 4;  // per generation, when a candidate is compared with it

struct Candidate {
  Generation seats;
  std::set<int32_t> ranks;
  Life life;
  int32_t known = -1;

  void add(const Seat& seat) {
    seats.push_back(&seat);
    life.extend(seat.life);
    if (seat.rank) {
      ranks.insert(*seat.rank);
    }
  }
  void add(const Candidate& other) {
    for (const Seat* seat : other.seats) {
      add(*seat);
    }
  }
  /// The seat with the most calls, which others are compared with.
  [[nodiscard]] const Seat& longest() const {
    const auto calls = [](const Seat* seat) { return seat->calls == nullptr ? 0 : seat->calls->calls.size(); };
    return **std::ranges::max_element(seats, {}, calls);
  }
};

bool share_a_rank(const Candidate& a, const Candidate& b) {
  const Candidate& fewer = a.ranks.size() < b.ranks.size() ? a : b;
  const Candidate& more = a.ranks.size() < b.ranks.size() ? b : a;
  return std::ranges::any_of(fewer.ranks, [&](int32_t rank) { return more.ranks.contains(rank); });
}

/// A pair that may belong together; the lowest cost is the best.
struct Pair {
  int64_t cost_ns = 0;
  size_t one = 0;
  size_t other = 0;
};

/// Selects each element of both sides at most once, the best pairs first.
std::vector<Pair> choose(std::vector<Pair> pairs) {
  std::ranges::stable_sort(pairs, {}, &Pair::cost_ns);
  std::set<size_t> ones;
  std::set<size_t> others;
  std::erase_if(pairs, [&](const Pair& pair) {
    if (ones.contains(pair.one) || others.contains(pair.other)) {
      return true;
    }
    ones.insert(pair.one);
    others.insert(pair.other);
    return false;
  });
  return pairs;
}

/// Groups the seats of one host, whose clock is exact.
class OneHost {
 public:
  explicit OneHost(const Cluster& cluster) : cluster_(cluster) {}

  void begin_with(const Seat& seat, int32_t known) {
    auto found = std::ranges::find(generations_, known, &Candidate::known);
    if (found == generations_.end()) {
      generations_.push_back({.known = known});
      found = generations_.end() - 1;
    }
    found->add(seat);
  }
  void add(const Seat& seat) { by_rank_[seat.rank].push_back(&seat); }

  std::vector<Candidate> split() {
    // The rank with the most processes comes first: each of its processes is a generation of its own.
    std::vector<std::optional<int32_t>> order;
    for (const auto& [rank, seats] : by_rank_) {
      order.push_back(rank);
    }
    std::ranges::stable_sort(order, std::greater{}, [&](const std::optional<int32_t>& rank) {
      return std::pair(rank.has_value(), by_rank_[rank].size());
    });
    for (const std::optional<int32_t>& rank : order) {
      assign(rank, by_rank_[rank]);
    }
    join_met();
    return std::move(generations_);
  }

 private:
  /// Joins generations that were alive together through a rank that came later, if no rank occurs twice.
  void join_met() {
    for (size_t i = 0; i < generations_.size(); ++i) {
      for (size_t j = i + 1; j < generations_.size();) {
        Candidate& one = generations_[i];
        const Candidate& other = generations_[j];
        if ((one.known >= 0 && other.known >= 0) || share_a_rank(one, other) || !one.life.meets(other.life)) {
          ++j;
          continue;
        }
        one.known = std::max(one.known, other.known);
        one.add(other);
        generations_.erase(generations_.begin() + static_cast<std::ptrdiff_t>(j));
        j = i + 1;
      }
    }
  }

  void assign(std::optional<int32_t> rank, const std::vector<const Seat*>& seats) {
    std::set<size_t> placed;
    const auto join = [&](size_t generation, size_t seat) {
      generations_[generation].add(*seats[seat]);
      placed.insert(seat);
    };
    std::vector<Pair> pairs;
    for (size_t seat = 0; seat < seats.size(); ++seat) {
      for (size_t i = 0; i < generations_.size(); ++i) {
        if (fits(generations_[i], *seats[seat])) {
          pairs.push_back({cost_ns(generations_[i], *seats[seat]), seat, i});
        }
      }
    }
    if (rank) {
      for (const Pair& pair : choose(std::move(pairs))) {
        join(pair.other, pair.one);
      }
    } else {
      std::ranges::stable_sort(pairs, {}, &Pair::cost_ns);
      for (const Pair& pair : pairs) {
        if (!placed.contains(pair.one)) {
          join(pair.other, pair.one);
        }
      }
    }
    for (size_t seat = 0; seat < seats.size(); ++seat) {
      if (placed.contains(seat)) {
        continue;
      }
      const auto twin = std::ranges::find_if(generations_, [&](const Candidate& generation) {
        return std::ranges::any_of(generation.seats,
                                   [&](const Seat* other) { return same_process(cluster_, *other, *seats[seat]); });
      });
      if (twin == generations_.end()) {
        generations_.emplace_back();
        generations_.back().add(*seats[seat]);
      } else {
        twin->add(*seats[seat]);
      }
    }
  }

  static bool fits(const Candidate& generation, const Seat& seat) {
    return !(seat.rank && generation.ranks.contains(*seat.rank)) && generation.life.meets(seat.life);
  }
  static int64_t cost_ns(const Candidate& generation, const Seat& seat) {
    int64_t least_ns = kForever;
    for (size_t i = 0; i < std::min(generation.seats.size(), kComparedSeats); ++i) {
      least_ns = std::min(least_ns, apart(*generation.seats[i], seat).mean_ns);
    }
    return least_ns;
  }

  const Cluster& cluster_;
  std::map<std::optional<int32_t>, std::vector<const Seat*>> by_rank_;
  std::vector<Candidate> generations_;
};

bool one_known(const Candidate& a, const Candidate& b) { return a.known >= 0 && a.known == b.known; }

/// The costs of joining a host's generation with each of the others. Calls with one number end at one time on all ranks
/// of a communicator: if the difference is steady with only one of them, the clocks are off, and that one matches.
std::vector<Pair> pairs_of(const std::vector<Candidate>& others, const Candidate& own, size_t index) {
  std::vector<Pair> pairs;
  std::vector<Apart> how;
  for (size_t i = 0; i < others.size(); ++i) {
    if (one_known(others[i], own)) {
      return {{-1, index, i}};
    }
    if (share_a_rank(others[i], own) || (others[i].known >= 0 && own.known >= 0)) {
      continue;
    }
    const Apart found = apart(others[i].longest(), own.longest());
    const bool steady = found.calls >= kSteadyCalls && found.spread_ns <= kSteadyNs;
    if (others[i].life.meets(own.life) || steady) {
      pairs.push_back({found.mean_ns, index, i});
      how.push_back(found);
    }
  }
  if (pairs.empty()) {
    return pairs;
  }
  const auto nearest = static_cast<size_t>(std::ranges::min_element(pairs, {}, &Pair::cost_ns) - pairs.begin());
  const auto spread_ns = [](const Apart& found) { return found.calls >= kSteadyCalls ? found.spread_ns : kForever; };
  const auto steadiest = static_cast<size_t>(std::ranges::min_element(how, {}, spread_ns) - how.begin());
  if (how[nearest].calls >= kSteadyCalls && how[nearest].spread_ns > kDriftNs &&
      spread_ns(how[steadiest]) * kSteadyContrast < how[nearest].spread_ns) {
    pairs[steadiest].cost_ns = 0;
  }
  return pairs;
}

/// Joins one host after the other to the host with the most generations.
std::vector<Candidate> join_hosts(std::vector<std::vector<Candidate>> hosts) {
  std::ranges::stable_sort(hosts, std::greater{}, &std::vector<Candidate>::size);
  std::vector<Candidate> joined = std::move(hosts.front());
  for (size_t host = 1; host < hosts.size(); ++host) {
    std::vector<Pair> pairs;
    for (size_t i = 0; i < hosts[host].size(); ++i) {
      std::ranges::copy(pairs_of(joined, hosts[host][i], i), std::back_inserter(pairs));
    }
    std::set<size_t> placed;
    for (const Pair& pair : choose(std::move(pairs))) {
      joined[pair.other].add(hosts[host][pair.one]);
      joined[pair.other].known = std::max(joined[pair.other].known, hosts[host][pair.one].known);
      placed.insert(pair.one);
    }
    for (size_t i = 0; i < hosts[host].size(); ++i) {
      if (!placed.contains(i)) {
        joined.push_back(std::move(hosts[host][i]));
      }
    }
  }
  return joined;
}

}  // namespace

bool has_generations(const Cluster& cluster, std::span<const Seat> seats) {
  std::vector<std::pair<int32_t, const Seat*>> ranks;
  std::map<size_t, Interval> edges;  // by host: the first exit, the last start
  for (const Seat& seat : seats) {
    if (seat.rank) {
      ranks.emplace_back(*seat.rank, &seat);
    }
    const size_t host = cluster.clock().host(cluster.member(seat.member).node_id);
    Interval& edge = edges.try_emplace(host, Interval{kForever, -kForever}).first->second;
    edge.from_ns = seat.life.exit_known ? std::min(edge.from_ns, seat.life.time.to_ns) : edge.from_ns;
    edge.to_ns = seat.life.start_known ? std::max(edge.to_ns, seat.life.time.from_ns) : edge.to_ns;
  }
  if (std::ranges::any_of(edges, [](const auto& host) { return host.second.from_ns <= host.second.to_ns; })) {
    return true;
  }
  std::ranges::stable_sort(ranks, {}, [](const auto& entry) { return entry.first; });
  return std::ranges::adjacent_find(ranks, [&](const auto& a, const auto& b) {
           return a.first == b.first && !same_process(cluster, *a.second, *b.second);
         }) != ranks.end();
}

std::vector<Generation> generations_of(const Cluster& cluster, std::span<const Seat> seats,
                                       const std::vector<int32_t>& known) {
  std::map<size_t, OneHost> hosts;
  for (const Seat& seat : seats) {
    OneHost& host = hosts.try_emplace(cluster.clock().host(cluster.member(seat.member).node_id), cluster).first->second;
    if (known[seat.member] >= 0) {
      host.begin_with(seat, known[seat.member]);
    } else {
      host.add(seat);
    }
  }
  std::vector<std::vector<Candidate>> split;
  for (auto& [index, host] : hosts) {
    split.push_back(host.split());
  }
  std::vector<Generation> generations;
  for (Candidate& candidate : join_hosts(std::move(split))) {
    generations.push_back(std::move(candidate.seats));
  }
  return generations;
}

}  // namespace stalltrace::analysis
