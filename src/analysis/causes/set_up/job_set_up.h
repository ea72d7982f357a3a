// SPDX-License-Identifier: Apache-2.0
// What is known of the set-up of one launched job, and the questions that the rules of rendezvous.cpp ask about it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/causes/set_up/launched_jobs.h"
#include "analysis/causes/set_up/stuck_calls.h"
#include "analysis/causes/set_up/unreached.h"

namespace stalltrace::analysis {

using Ranks = std::vector<const LaunchedRank*>;

/// "ranks 0 and 2"
std::string numbers_of(const Ranks& ranks);

/// Refers to the arguments of its constructor. The store is the address to which MASTER_ADDR and MASTER_PORT lead a
/// rank; an address is recognised by its port alone, since hosts have several names.
class JobSetUp {
 public:
  /// Takes the job's share of `stuck` and `reach`, which are those of all jobs.
  JobSetUp(Cluster& cluster, const Timeline& timeline, const LaunchedJob& job, const std::vector<StuckCall>& stuck,
           const Reach& reach);

  [[nodiscard]] const LaunchedJob& job() const { return job_; }
  [[nodiscard]] Cluster& cluster() const { return cluster_; }
  /// Calls of the job's ranks that make communicators and failed or took long.
  [[nodiscard]] const std::vector<StuckCall>& stuck() const { return stuck_; }
  /// The last time at which the job was observed, in the common clock.
  [[nodiscard]] int64_t seen_to_ns() const { return seen_to_ns_; }
  /// A communicator of the job was made.
  [[nodiscard]] bool made_communicators() const { return made_communicators_; }

  /// The rank becomes a member of the cluster if its process can.
  [[nodiscard]] MemberIndex member_of(const LaunchedRank& rank) const;
  [[nodiscard]] std::string name(const LaunchedRank& rank) const;
  [[nodiscard]] std::string names(const Ranks& ranks) const;
  [[nodiscard]] std::string how_it_ended(const LaunchedRank& rank) const;
  [[nodiscard]] std::string node_of(const LaunchedRank& rank) const;
  /// "node1", "3 recorded nodes"
  [[nodiscard]] std::string nodes() const;
  [[nodiscard]] bool is_own_address(const std::string& address) const;

  /// The rank's attempts to reach the address that it tried most often without success. Null: fewer than
  /// kUnreachedAttempts.
  [[nodiscard]] const Attempts* fails(const LaunchedRank& rank) const;
  /// The same, where that address is the store's.
  [[nodiscard]] const Attempts* fails_at_store(const LaunchedRank& rank) const;
  /// The rank reached the store.
  [[nodiscard]] bool met(const LaunchedRank& rank) const;
  /// The rank reached the store, or tried to, or made a call. A child that only inherited its parent's variables did
  /// none of these.
  [[nodiscard]] bool acts(const LaunchedRank& rank) const;
  [[nodiscard]] const StuckCall* stuck(const LaunchedRank& rank) const;
  /// All processes of the rank have ended.
  [[nodiscard]] bool is_gone(int32_t rank) const { return !living_.contains(rank); }
  [[nodiscard]] bool is_gone(const LaunchedRank& rank) const { return is_gone(rank.rank); }
  /// Another rank was in its set-up when `gone` ended, or tried to reach it, and went on for kOpenInitNs or more: the
  /// ranks were not ended all at once. No collective has aligned the clocks of hosts: a rank of another host has to go
  /// on for kClocksApartNs longer.
  [[nodiscard]] bool is_missed(const LaunchedRank& gone) const;
  /// A process that another one of its rank started, which lived then: it may have inherited its variables.
  [[nodiscard]] bool is_child(const LaunchedRank& rank) const;
  /// The clocks of the two ranks' hosts can be compared.
  [[nodiscard]] bool on_one_host(const LaunchedRank& a, const LaunchedRank& b) const;

  /// Ranks that have been inside a set-up call for `least_ns` and still are.
  [[nodiscard]] Ranks waiting(int64_t least_ns) const;
  [[nodiscard]] Ranks failing() const;
  [[nodiscard]] Ranks failing_at_store() const;
  /// One process of each rank that is gone: the one that acted, or the first. Sorted by the time of its end.
  [[nodiscard]] Ranks gone() const;
  /// A rank waits, tries without success to reach the others, or failed. Without that, variables that differ mean
  /// nothing.
  [[nodiscard]] bool in_trouble() const;
  /// When the trouble began, in the common clock.
  [[nodiscard]] int64_t trouble_from_ns() const;
  /// For how long the ranks have tried, the longest time of all; kForever where one gave up. An attempt that has not
  /// ended may still succeed.
  [[nodiscard]] int64_t tried_ns(const Ranks& ranks) const;
  /// The address of the store, as most ranks reached it.
  [[nodiscard]] std::optional<Endpoint> store() const;

 private:
  void take_calls(const Timeline& timeline, const std::vector<StuckCall>& stuck);
  void take_reach(const Reach& reach);
  void take_waits();

  Cluster& cluster_;
  const LaunchedJob& job_;
  std::vector<StuckCall> stuck_;
  Reach reach_;
  bool made_communicators_ = false;
  int64_t seen_to_ns_ = -kForever;
  std::map<ProcessKey, Interval> lives_;
  std::set<int32_t> living_;
  std::map<ProcessKey, Attempts> fails_;
  std::map<ProcessKey, StuckCall> stuck_by_process_;
  std::vector<std::pair<int64_t, const LaunchedRank*>>
      waits_;  // until when each rank waited or tried; the latest first
};

}  // namespace stalltrace::analysis
