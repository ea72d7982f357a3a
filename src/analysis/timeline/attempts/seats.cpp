// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/attempts/seats.h"

#include <algorithm>
#include <cstdlib>

#include "analysis/thresholds/timeline.h"

namespace stalltrace::analysis {
namespace {

void extend(Interval& time, int64_t from_ns, int64_t to_ns) {
  time = {std::min(time.from_ns, from_ns), std::max(time.to_ns, to_ns)};
}

/// From the first arrival to the last call's end, if that was observed.
Interval active_in(const CallSequence& sequence) {
  if (sequence.first_arrival_ns > sequence.last_arrival_ns) {
    return {kForever, -kForever};
  }
  const int64_t end_ns = sequence.calls.empty() ? kForever : sequence.calls.back().end_ns();
  return {sequence.first_arrival_ns,
          std::max(sequence.last_arrival_ns, end_ns == kForever ? sequence.last_arrival_ns : end_ns)};
}

Interval active_in(const CommunicatorCall& call) {
  return {call.arrival_ns, call.end_ns == kForever ? call.arrival_ns : call.end_ns};
}

void extend(Interval& time, const Interval& by) {
  if (by.from_ns <= by.to_ns) {
    extend(time, by.from_ns, by.to_ns);
  }
}

/// Merges seats of one process on one communicator.
void merge(Seat& into, const Seat& from) {
  into.rank = into.rank ? into.rank : from.rank;
  extend(into.active, from.active);
  if (into.calls == nullptr || (from.calls != nullptr && from.calls->calls.size() > into.calls->calls.size())) {
    into.calls = from.calls;
  }
}

int64_t moment_of(const Call& call, bool ended) { return ended ? call.end_ns() : call.arrival_ns; }

}  // namespace

bool Life::meets(const Life& other) const {
  return std::min(time.to_ns, other.time.to_ns) > std::max(time.from_ns, other.time.from_ns) + kLivesMeetNs;
}

void Life::extend(const Life& other) {
  time = {std::min(time.from_ns, other.time.from_ns), std::max(time.to_ns, other.time.to_ns)};
}

std::vector<Life> lives_of(const Cluster& cluster, const std::vector<CallSequence>& sequences,
                           const std::vector<CommunicatorCall>& calls) {
  std::vector<Life> lives(cluster.members().size());
  for (const CallSequence& sequence : sequences) {
    extend(lives[sequence.member].time, active_in(sequence));
  }
  for (const CommunicatorCall& call : calls) {
    extend(lives[call.member].time, active_in(call));
  }
  for (const Communicator& row : cluster.communicators()) {
    if (const MemberIndex member = cluster.find(row.node_id, row.pid); member != kNoMember && row.created_ns != 0) {
      const int64_t created_ns = cluster.clock().to_common(row.node_id, row.created_ns);
      extend(lives[member].time, created_ns, created_ns);
    }
  }
  for (size_t i = 0; i < lives.size(); ++i) {
    const Member& member = cluster.members()[i];
    Life& life = lives[i];
    life.start_known = member.start_ns.has_value();
    life.exit_known = member.exit_ns.has_value();
    if (life.start_known) {
      life.time.from_ns = std::min(life.time.from_ns, *member.start_ns);
    }
    if (life.exit_known) {
      life.time.to_ns = *member.exit_ns;
    } else if (life.start_known) {  // it has a row, and its end was not observed
      life.time.to_ns = kForever;
    }
    if (life.time.from_ns > life.time.to_ns) {  // nothing is known about it
      life.time = {-kForever / 2, kForever};
    }
  }
  return lives;
}

std::vector<Seat> seats_of(const Cluster& cluster, const std::vector<CallSequence>& sequences,
                           const std::vector<CommunicatorCall>& calls, const std::vector<Life>& lives) {
  std::vector<Seat> seats;
  const auto add = [&](Seat seat) {
    if (seat.hash != 0 && seat.member != kNoMember) {
      seat.life = lives[seat.member];
      seats.push_back(seat);
    }
  };
  for (const CallSequence& sequence : sequences) {
    add({.member = sequence.member,
         .hash = sequence.hash,
         .rank = sequence.comm_rank,
         .active = active_in(sequence),
         .calls = sequence.point_to_point || sequence.calls.empty() ? nullptr : &sequence});
  }
  for (const CommunicatorCall& call : calls) {
    add({.member = call.member, .hash = call.hash, .rank = call.rank, .active = active_in(call)});
  }
  for (const Communicator& row : cluster.communicators()) {
    add({.member = cluster.find(row.node_id, row.pid), .hash = row.comm_id_hash, .rank = row.rank});
  }
  std::ranges::stable_sort(seats, {}, [](const Seat& seat) { return std::pair(seat.hash, seat.member); });
  size_t kept = 0;
  for (size_t i = 1; i < seats.size(); ++i) {
    if (seats[kept].hash == seats[i].hash && seats[kept].member == seats[i].member) {
      merge(seats[kept], seats[i]);
    } else {
      seats[++kept] = seats[i];
    }
  }
  seats.resize(seats.empty() ? 0 : kept + 1);
  return seats;
}

bool same_process(const Cluster& cluster, const Seat& a, const Seat& b) {
  const Member& x = cluster.member(a.member);
  const Member& y = cluster.member(b.member);
  const bool one_start = !x.start_ns || !y.start_ns || std::llabs(*x.start_ns - *y.start_ns) < kSameStartNs;
  return a.member == b.member || (x.node_id != y.node_id && x.pid == y.pid && one_start &&
                                  cluster.clock().host(x.node_id) == cluster.clock().host(y.node_id));
}

Apart apart(const Seat& a, const Seat& b) {
  std::vector<int64_t> differences;
  if (a.calls != nullptr && b.calls != nullptr) {
    const int64_t begin = std::max(a.calls->first_number(), b.calls->first_number());
    const int64_t end = std::min(a.calls->end_number(), b.calls->end_number());
    const int64_t step = std::max<int64_t>(1, (end - begin) / kAttemptSamples);
    for (int64_t number = begin; number < end; number += step) {
      const Call* x = a.calls->call_at(number);
      const Call* y = b.calls->call_at(number);
      if (x != nullptr && y != nullptr) {
        const bool ended = x->end_ns() != kForever && y->end_ns() != kForever;
        differences.push_back(moment_of(*x, ended) - moment_of(*y, ended));
      }
    }
  }
  Apart result{.calls = static_cast<int64_t>(differences.size())};
  if (differences.empty()) {
    const Interval first = a.active.from_ns <= b.active.from_ns ? a.active : b.active;
    const Interval second = a.active.from_ns <= b.active.from_ns ? b.active : a.active;
    const bool known = first.from_ns <= first.to_ns && second.from_ns <= second.to_ns;
    const int64_t gap_ns = known && second.from_ns > first.to_ns ? second.from_ns - first.to_ns : 0;
    result.mean_ns = gap_ns + std::llabs(a.life.time.from_ns - b.life.time.from_ns);
    return result;
  }
  for (const int64_t difference : differences) {
    result.mean_ns += std::llabs(difference) / result.calls;
  }
  std::ranges::sort(differences);
  const size_t quarter = differences.size() / 4;
  result.spread_ns = differences[differences.size() - 1 - quarter] - differences[quarter];
  return result;
}

}  // namespace stalltrace::analysis
