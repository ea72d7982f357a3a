// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/set_up/init_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/causes/library_advice.h"
#include "analysis/causes/set_up/rendezvous.h"
#include "analysis/causes/set_up/stuck_calls.h"
#include "analysis/causes/set_up/unreached.h"
#include "analysis/evidence/flows.h"
#include "analysis/thresholds/set_up.h"
#include "base/net/loopback.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

using UnreachedByRanks = std::map<std::pair<MemberIndex, Endpoint>, Attempts>;

/// A loopback address is no mistake if all ranks are on one node.
bool of_several_nodes(const Cluster& cluster, const std::vector<StuckCall>& stuck, MemberIndex culprit) {
  return std::ranges::any_of(stuck, [&](const StuckCall& one) {
    return cluster.member(one.call->member).node != cluster.member(culprit).node;
  });
}

/// Where an unreached address is, and which rank announced it.
struct Target {
  bool loopback = false;
  bool foreign = false;  // no recorded process of the job has a connection from that address
  MemberIndex announcer = kNoMember;
};

/// The rank that announced the address that `member` tries to reach. NCCL's set-up is a ring in which each rank
/// connects to the next one. An address that several ranks try (the one in rank 0's unique id, or those of Gloo's full
/// mesh) belongs to the rank that does not try it.
MemberIndex announcer(const std::vector<StuckCall>& stuck, const UnreachedByRanks& unreached, MemberIndex member,
                      const Attempts& attempts) {
  std::set<MemberIndex> tried;
  for (const auto& [who, other] : unreached) {
    if (other.target.address == attempts.target.address &&
        (!is_loopback(other.target.address) || other.target == attempts.target)) {
      tried.insert(who.first);
    }
  }
  std::set<MemberIndex> others;
  const CommunicatorCall* own = nullptr;
  for (const StuckCall& one : stuck) {
    own = one.call->member == member ? one.call : own;
    if (!tried.contains(one.call->member)) {
      others.insert(one.call->member);
    }
  }
  if (tried.size() > 1) {
    return others.size() == 1 ? *others.begin() : kNoMember;
  }
  if (own == nullptr || !own->rank || own->nranks.value_or(0) <= 0) {
    return kNoMember;
  }
  const int32_t next = (*own->rank + 1) % *own->nranks;
  const auto other = std::find_if(stuck.begin(), stuck.end(), [&](const StuckCall& one) {
    return one.call->rank == next && one.call->hash == own->hash;
  });
  return other == stuck.end() || other->call->member == member ? kNoMember : other->call->member;
}

/// The ranks of one communicator, by its own numbers.
struct SetUpRanks {
  int32_t nranks = 0;  // 0: not known
  std::set<int32_t> seen;

  [[nodiscard]] bool all_seen() const {
    return nranks > 0 &&
           std::ranges::count_if(seen, [&](int32_t rank) { return rank >= 0 && rank < nranks; }) == nranks;
  }
};

/// By the hash of the communicator: those that are inside its set-up.
std::map<CommHash, SetUpRanks> ranks_in_set_up(const std::vector<StuckCall>& stuck) {
  std::map<CommHash, SetUpRanks> ranks;
  for (const StuckCall& one : stuck) {
    SetUpRanks& communicator = ranks[one.call->hash];
    communicator.seen.insert(one.call->rank.value_or(-1));
    communicator.nranks = std::max(communicator.nranks, one.call->nranks.value_or(0));
  }
  return ranks;
}

/// True if all ranks of the communicators were recorded inside the set-up: one of them announced the address.
bool all_ranks_stuck(const std::vector<StuckCall>& stuck) {
  return std::ranges::all_of(ranks_in_set_up(stuck), [](const auto& one) { return one.second.all_seen(); });
}

/// Whether the process is of the member's job and attempt. One that has made no call yet has no attempt: it was started
/// together with the others.
bool is_with(const Cluster& cluster, NodeId node, int32_t pid, const Member& member) {
  const AttemptIndex attempt = cluster.attempt_of(cluster.find(node, pid));
  return attempt == kNoAttempt || attempt == member.attempt;
}
bool is_of_job(const Cluster& cluster, const Process& process, const Member& member) {
  const int64_t start_ns = cluster.clock().to_common(process.node_id, process.start_ns);
  const bool together =
      process.start_ns == 0 || !member.start_ns || std::llabs(start_ns - *member.start_ns) <= kStartedTogetherNs;
  return process.job_id == member.job_id && is_with(cluster, process.node_id, process.pid, member) && together;
}

/// True if a process of each rank of the communicators was recorded, inside the set-up or elsewhere. A rank of the job
/// is one of a communicator only where that has all ranks of the job.
bool all_ranks_recorded(const Cluster& cluster, const std::vector<StuckCall>& stuck) {
  std::map<CommHash, SetUpRanks> ranks = ranks_in_set_up(stuck);
  const Member& member = cluster.member(stuck.front().call->member);
  for (const Communicator& row : cluster.communicators()) {
    const auto found = ranks.find(row.comm_id_hash);
    if (found != ranks.end() && is_with(cluster, row.node_id, row.pid, member)) {
      found->second.seen.insert(row.rank.value_or(-1));
    }
  }
  for (const Process& process : cluster.processes()) {
    for (auto& [hash, communicator] : ranks) {
      if (process.world_size == communicator.nranks && is_of_job(cluster, process, member)) {
        communicator.seen.insert(process.rank.value_or(-1));
      }
    }
  }
  return std::ranges::all_of(ranks, [](const auto& one) { return one.second.all_seen(); });
}

Result<Target> target_of(EventSource& source, const Cluster& cluster, const std::vector<StuckCall>& stuck,
                         const UnreachedByRanks& unreached, MemberIndex member, const Attempts& attempts) {
  Target target{.loopback = is_loopback(attempts.target.address) && of_several_nodes(cluster, stuck, member)};
  ST_ASSIGN(const std::vector<Connection> connections, source.connections());
  target.foreign = std::none_of(connections.begin(), connections.end(), [&](const Connection& connection) {
    return connection.source.address == attempts.target.address;
  });
  if (target.loopback || (target.foreign && all_ranks_stuck(stuck))) {
    target.announcer = announcer(stuck, unreached, member, attempts);
  }
  return target;
}

std::string target_text(const Cluster& cluster, const Target& target) {
  const std::string announcer = target.announcer == kNoMember ? "another rank" : cluster.describe(target.announcer);
  if (target.loopback) {
    return fmt::format("; that is a loopback address, which {} announced: the wrong interface was chosen", announcer);
  }
  if (target.foreign && target.announcer != kNoMember) {
    return fmt::format(
        "; {} announced that address, from which no connection of the job comes: the wrong interface was "
        "chosen, or nothing is let through to it",
        announcer);
  }
  return "";
}

void describe(const Cluster& cluster, const std::vector<StuckCall>& stuck, MemberIndex culprit, const Target& where,
              const Attempts& attempts, Finding& finding) {
  const std::string target = format_endpoint(attempts.target);
  const bool ended = std::all_of(stuck.begin(), stuck.end(),
                                 [](const StuckCall& one) { return !one.failed && one.call->end_ns != kForever; });
  finding.summary =
      fmt::format("A communicator {}: {} did not reach {} ({}) while {} waited for {}{}.",
                  ended ? "was set up late" : "could not be set up", cluster.describe(culprit), target,
                  error_text(attempts), count_of(static_cast<int64_t>(stuck.size()), "rank"),
                  format_duration(static_cast<int64_t>(finding.stall_ms * kNsPerMs)), target_text(cluster, where));
  finding.evidence.push_back(attempts_evidence(short_name(cluster, culprit), attempts));
  for (size_t i = 0; i < stuck.size() && i < kMostSteps; ++i) {
    finding.evidence.push_back({"collective", 1, stuck_text(cluster, stuck[i]), {}});
  }
  const LibraryAdvice& advice = advice_for(stuck.front().call->library);
  finding.remedy =
      where.loopback || where.announcer != kNoMember
          ? fmt::format("choose the interface that the nodes share with {}, the same on all nodes",
                        advice.interface_setting)
          : fmt::format("check that {} may connect to {}: a firewall on either end, {}the interface chosen by {}",
                        cluster.member(culprit).node, target, advice.address, advice.interface_setting);
}

/// The failure of one job attempt.
Result<std::optional<Finding>> failure_of(EventSource& source, Cluster& cluster, const std::vector<StuckCall>& stuck,
                                          TimeRange range) {
  Interval time{stuck.front().time};
  std::vector<Interval> waits;
  for (const StuckCall& one : stuck) {
    time = {std::min(time.from_ns, one.time.from_ns), std::max(time.to_ns, one.time.to_ns)};
    waits.push_back(one.time);
  }
  if (range.from_ns > time.to_ns || range.to_ns <= time.from_ns) {
    return std::nullopt;
  }
  ST_ASSIGN(const Reach reach, reach_in(source, cluster, time));
  const AttemptIndex attempt = cluster.attempt_of(stuck.front().call->member);
  UnreachedByRanks unreached;
  for (const auto& [who, attempts] : reach.unreached) {
    const MemberIndex member = cluster.join(who.first.first, who.first.second);
    const AttemptIndex other = cluster.attempt_of(member);
    if (member != kNoMember && (other == kNoAttempt || other == attempt)) {  // kNoAttempt: it has made no call yet
      unreached[{member, who.second}] = attempts;
    }
  }
  const auto most = std::max_element(unreached.begin(), unreached.end(),
                                     [](const auto& a, const auto& b) { return a.second.count() < b.second.count(); });
  if (most == unreached.end() ||
      std::max(most->second.count(), unanswered_by_address(unreached).at(most->second.target.address)) <
          kUnreachedAttempts) {
    return std::nullopt;  // a rank has not come yet: a set-up may take its time
  }
  const MemberIndex culprit = most->first.first;
  const Attempts& attempts = most->second;
  Finding finding{.cause = Cause::kInitFailure, .severity = Severity::kCritical, .confidence = kInitFailureConfidence};
  ST_ASSIGN(const Target target, target_of(source, cluster, stuck, unreached, culprit, attempts));
  if (target.announcer != kNoMember) {
    finding.culprit = culprit_of(cluster, target.announcer);
  } else if (!(target.loopback || target.foreign) || all_ranks_recorded(cluster, stuck)) {
    finding.culprit = culprit_of(cluster, culprit);
  }  // else the rank at that address, which was not recorded, may be to blame
  finding.comm_id_hash = stuck.front().call->hash;
  finding.op = stuck.front().call->op;
  finding.collectives_affected = 1;
  finding.stall_ms = static_cast<double>(IntervalSet(std::move(waits)).total_ns()) / static_cast<double>(kNsPerMs);
  finding.window = {time.from_ns, time.to_ns};
  describe(cluster, stuck, culprit, target, attempts, finding);
  return finding;
}

}  // namespace

Result<std::vector<Finding>> find_init_failures(EventSource& source, Cluster& cluster, const Timeline& timeline,
                                                TimeRange range, const std::set<ProcessKey>& called) {
  const std::vector<StuckCall> stuck = stuck_calls(cluster, timeline);
  std::vector<Finding> findings;
  std::set<ProcessKey> explained;
  ST_ASSIGN(const std::vector<Loss> losses, source.losses());
  const std::vector<LaunchedJob> jobs = jobs_in_set_up(cluster, timeline, losses, called);
  Interval time{kForever, -kForever};
  for (const LaunchedJob& job : jobs) {
    for (const LaunchedRank& rank : job.ranks) {
      time = {std::min(time.from_ns, rank.life.from_ns), std::max(time.to_ns, std::min(rank.life.to_ns, kForever / 2))};
    }
  }
  Reach reach;
  if (!jobs.empty()) {
    ST_ASSIGN(reach, reach_in(source, cluster, time));
  }
  for (const LaunchedJob& job : jobs) {
    std::optional<Finding> found = rendezvous_failure(JobSetUp(cluster, timeline, job, stuck, reach));
    if (found && range.from_ns <= found->window.to_ns && range.to_ns > found->window.from_ns) {
      findings.push_back(std::move(*found));
      std::ranges::transform(job.ranks, std::inserter(explained, explained.end()), &LaunchedRank::key);
    }
  }
  std::map<AttemptIndex, std::vector<StuckCall>> attempts;
  for (const StuckCall& one : stuck) {
    const Member& member = cluster.member(one.call->member);
    if (!explained.contains({member.node_id, member.pid})) {
      attempts[cluster.attempt_of(one.call->member)].push_back(one);
    }
  }
  for (const auto& [attempt, calls] : attempts) {
    ST_ASSIGN(std::optional<Finding> found, failure_of(source, cluster, calls, range));
    if (found) {
      found->attempt = attempt + int64_t{1};
      findings.push_back(std::move(*found));
    }
  }
  return findings;
}

}  // namespace stalltrace::analysis
