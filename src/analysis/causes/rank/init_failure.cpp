// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/rank/init_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "analysis/causes/cause.h"
#include "analysis/evidence/flows.h"
#include "analysis/thresholds.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kSampleEvents = 5;

/// A set-up call that failed, or that took long, whether it ended or not.
struct Stuck {
  const CommunicatorCall* call = nullptr;
  Interval time{0, 0};
  bool failed = false;
};

/// Attempts of one process to reach one address that came to nothing.
struct Attempts {
  int64_t refused = 0;
  int64_t unanswered = 0;
  int64_t last_ns = 0;
  int32_t error = 0;
  Endpoint target;
  std::vector<EventId> events;

  [[nodiscard]] int64_t count() const { return refused + unanswered; }
};
using Unreached = std::map<std::pair<MemberIndex, Endpoint>, Attempts>;

std::map<NodeId, int64_t> ends_of(const Cluster& cluster) {
  std::map<NodeId, int64_t> ends;
  for (const Node& node : cluster.nodes()) {
    if (node.ended_ns) {
      ends[node.node_id] = cluster.clock().to_common(node.node_id, *node.ended_ns);
    }
  }
  return ends;
}

std::vector<Stuck> stuck_calls(const Cluster& cluster, const Timeline& timeline) {
  const std::map<NodeId, int64_t> ends = ends_of(cluster);
  std::vector<Stuck> stuck;
  for (const CommunicatorCall& call : timeline.communicator_calls()) {
    if (call.op != Operation::kCommInitRank && call.op != Operation::kCommInitAll && call.op != Operation::kCommSplit) {
      continue;
    }
    const Member& member = cluster.member(call.member);
    const auto end = ends.find(member.node_id);
    const int64_t seen_to_ns =
        std::min(member.exit_ns.value_or(kForever),
                 end == ends.end() ? std::max(timeline.span().to_ns, call.arrival_ns) : end->second);
    const Interval time{call.arrival_ns, std::min(call.end_ns, seen_to_ns)};
    const bool failed = call_failed(call.library, call.return_code.value_or(0));
    if (failed || time.length() >= (call.end_ns == kForever ? kOpenInitNs : kInitHangNs)) {
      stuck.push_back({&call, time, failed});
    }
  }
  return stuck;
}

/// NCCL's codes have names; any other library's are printed as numbers.
std::string result_text(const CommunicatorCall& call) {
  const int32_t code = call.return_code.value_or(0);
  return call.library == Library::kNccl || call.library == Library::kRccl ? std::string(nccl_result_name(code))
                                                                          : fmt::format("return code {}", code);
}

using Sockets = std::set<std::pair<NodeId, uint64_t>>;

Result<Sockets> connected_in(EventSource& source, TimeRange range) {
  Sockets connected;
  ST_TRY(source.tcp_events(range, [&](const TcpEvent& event) {
    if (event.event == TcpEventKind::kConnect || event.event == TcpEventKind::kAccept) {
      connected.insert({event.node_id, event.cookie});
    }
  }));
  return connected;
}

/// SYNs that nobody answers are retransmissions without payload; those of connections that came about later were only
/// late, as where a queue of connections overflows while all ranks start.
Result<Unreached> unreached_in(EventSource& source, Cluster& cluster, Interval time) {
  Unreached unreached;
  const int64_t slack_ns = cluster.clock().largest_shift_ns();
  ST_ASSIGN(const Sockets connected, connected_in(source, {time.from_ns - slack_ns, time.to_ns + slack_ns}));
  ST_TRY(source.tcp_events({time.from_ns - slack_ns, time.to_ns + slack_ns}, [&](const TcpEvent& event) {
    const bool refused = event.event == TcpEventKind::kConnectFailed && event.state != 0;
    const bool unanswered = event.event == TcpEventKind::kRetransmit && event.len == 0 &&
                            !connected.contains({event.node_id, event.cookie});
    if (!refused && !unanswered) {
      return;
    }
    const MemberIndex member = cluster.join(event.node_id, event.pid);
    if (member == kNoMember) {
      return;
    }
    Attempts& attempts = unreached[{member, event.destination}];
    attempts.refused += refused ? 1 : 0;
    attempts.unanswered += unanswered ? 1 : 0;
    attempts.error = refused ? event.state : attempts.error;
    attempts.last_ns = std::max(attempts.last_ns, cluster.clock().to_common(event.node_id, event.timestamp_ns));
    attempts.target = event.destination;
    if (attempts.events.size() < kSampleEvents) {
      attempts.events.push_back(event.event_id);
    }
  }));
  return unreached;
}

/// By all processes together, on any port: TCP repeats a SYN only after seconds.
int64_t unanswered_at(const Unreached& unreached, const Endpoint& target) {
  int64_t unanswered = 0;
  for (const auto& [who, attempts] : unreached) {
    unanswered += attempts.target.address == target.address ? attempts.unanswered : 0;
  }
  return unanswered;
}

std::string_view error_text(const Attempts& attempts) {
  switch (attempts.error) {
    case ECONNREFUSED:
      return "refused";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "unreachable";
    default:
      return "not answered";
  }
}

/// Where an unreached address lies, and who announced it.
struct Target {
  bool loopback = false;
  bool foreign = false;  // no recorded process of the job has a connection of its own from that address
  MemberIndex announcer = kNoMember;
};

/// Who announced the address that `member` tries to reach: NCCL's set-up is a ring in which each rank connects to the
/// next one; what several ranks try (the address that rank 0 put into the unique id, or those of Gloo's mesh of all)
/// is the address of the one that does not.
MemberIndex announcer(const std::vector<Stuck>& stuck, const Unreached& unreached, MemberIndex member,
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
  for (const Stuck& one : stuck) {
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
  const auto other = std::find_if(stuck.begin(), stuck.end(), [&](const Stuck& one) { return one.call->rank == next; });
  return other == stuck.end() || other->call->member == member ? kNoMember : other->call->member;
}

/// All ranks of the communicator are in its set-up and were recorded: the rank that announced an address is one of
/// them.
bool all_ranks_stuck(const std::vector<Stuck>& stuck) {
  std::set<int32_t> ranks;
  int32_t nranks = 0;
  for (const Stuck& one : stuck) {
    if (one.call->rank) {
      ranks.insert(*one.call->rank);
    }
    nranks = std::max(nranks, one.call->nranks.value_or(0));
  }
  return nranks > 0 && ranks.size() == static_cast<size_t>(nranks);
}

Result<Target> target_of(EventSource& source, const std::vector<Stuck>& stuck, const Unreached& unreached,
                         MemberIndex member, const Attempts& attempts) {
  Target target{.loopback = is_loopback(attempts.target.address)};
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

void describe(const Cluster& cluster, const std::vector<Stuck>& stuck, MemberIndex culprit, const Target& where,
              const Attempts& attempts, Finding& finding) {
  const std::string target = format_endpoint(attempts.target);
  const bool ended = std::all_of(stuck.begin(), stuck.end(),
                                 [](const Stuck& one) { return !one.failed && one.call->end_ns != kForever; });
  finding.summary =
      fmt::format("A communicator {}: {} did not reach {} ({}) while {} waited for {}{}.",
                  ended ? "was set up late" : "could not be set up", cluster.describe(culprit), target,
                  error_text(attempts), count_of(static_cast<int64_t>(stuck.size()), "rank"),
                  format_duration(static_cast<int64_t>(finding.stall_ms * kNsPerMs)), target_text(cluster, where));
  finding.evidence.push_back({attempts.refused > 0 ? "connect_failed" : "tcp_retransmit_skb", attempts.count(),
                              fmt::format("{} from {} to {}: {}", count_of(attempts.count(), "attempt"),
                                          short_name(cluster, culprit), target, error_text(attempts)),
                              attempts.events});
  for (size_t i = 0; i < stuck.size() && i < kMostSteps; ++i) {
    const std::string name = cluster.describe(stuck[i].call->member);
    finding.evidence.push_back(
        {"collective",
         1,
         stuck[i].failed
             ? fmt::format("{}: communicator set-up failed with '{}' after {}", name, result_text(*stuck[i].call),
                           format_duration(stuck[i].time.length()))
             : fmt::format("{} was setting up its communicator for {}", name, format_duration(stuck[i].time.length())),
         {}});
  }
  finding.remedy =
      where.loopback || where.announcer != kNoMember
          ? "choose the interface that the nodes share with NCCL_SOCKET_IFNAME (GLOO_SOCKET_IFNAME, the MPI "
            "equivalent), the same on all nodes"
          : fmt::format(
                "check that {} may connect to {}: a firewall on either end, MASTER_ADDR and MASTER_PORT, the "
                "interface chosen by NCCL_SOCKET_IFNAME",
                cluster.member(culprit).node, target);
}

/// Of one job attempt.
Result<std::optional<Finding>> failure_of(EventSource& source, Cluster& cluster, const std::vector<Stuck>& stuck,
                                          TimeRange range) {
  Interval time{stuck.front().time};
  std::vector<Interval> waits;
  for (const Stuck& one : stuck) {
    time = {std::min(time.from_ns, one.time.from_ns), std::max(time.to_ns, one.time.to_ns)};
    waits.push_back(one.time);
  }
  if (range.from_ns > time.to_ns || range.to_ns <= time.from_ns) {
    return std::nullopt;
  }
  ST_ASSIGN(Unreached unreached, unreached_in(source, cluster, time));
  const AttemptIndex attempt = cluster.attempt_of(stuck.front().call->member);
  std::erase_if(unreached, [&](const auto& entry) {  // a process that made no call yet belongs to none
    const AttemptIndex other = cluster.attempt_of(entry.first.first);
    return other != kNoAttempt && other != attempt;
  });
  const auto most = std::max_element(unreached.begin(), unreached.end(),
                                     [](const auto& a, const auto& b) { return a.second.count() < b.second.count(); });
  if (most == unreached.end() ||
      std::max(most->second.count(), unanswered_at(unreached, most->second.target)) < kUnreachedAttempts) {
    return std::nullopt;  // somebody has not come yet: a set-up may take its time
  }
  const MemberIndex culprit = most->first.first;
  const Attempts& attempts = most->second;
  Finding finding{.cause = Cause::kInitFailure, .severity = Severity::kCritical, .confidence = kInitFailureConfidence};
  ST_ASSIGN(const Target target, target_of(source, stuck, unreached, culprit, attempts));
  finding.culprit = culprit_of(cluster, target.announcer == kNoMember ? culprit : target.announcer);
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
                                                TimeRange range) {
  std::map<AttemptIndex, std::vector<Stuck>> attempts;
  for (const Stuck& one : stuck_calls(cluster, timeline)) {
    attempts[cluster.attempt_of(one.call->member)].push_back(one);
  }
  std::vector<Finding> findings;
  for (const auto& [attempt, stuck] : attempts) {
    ST_ASSIGN(std::optional<Finding> found, failure_of(source, cluster, stuck, range));
    if (found) {
      found->attempt = attempt + int64_t{1};
      findings.push_back(std::move(*found));
    }
  }
  return findings;
}

}  // namespace stalltrace::analysis
