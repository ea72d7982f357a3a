// SPDX-License-Identifier: Apache-2.0
// Ranks that are elsewhere while others wait in a call, ranks in different calls, and waits without a visible cause.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "analysis/advice.h"
#include "analysis/thresholds/hangs.h"
#include "autopsy/judge/job.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

constexpr size_t kMostBlamed = 4;  // absent ranks with a finding of their own

bool in_set_up(const Job& job, std::span<const size_t> ranks) {
  return std::ranges::all_of(ranks,
                             [&](size_t rank) { return job.ranks()[rank].call->op == Operation::kCommInitRank; });
}

Evidence doing_evidence(const Job& job, size_t rank) {
  const RankState& now = job.ranks()[rank];
  const RankState* before = job.before(rank);
  const uint64_t ticks = before == nullptr ? 0 : now.cpu_ticks - std::min(now.cpu_ticks, before->cpu_ticks);
  const bool same = before != nullptr && before->location == now.location && before->activity == now.activity;
  return {
      "stack",
      1,
      fmt::format("{} was {} in {} snapshot{}", job.short_name(rank), job.doing(rank), same ? "both" : "the last",
                  same ? fmt::format("s{}", ticks == 0 ? ", and used no CPU in between" : "")
                       : fmt::format("; before that it was {}", before == nullptr ? "not there" : before->activity)),
      {}};
}

/// What the rank's sockets hold for it.
void add_unread(const Job& job, size_t rank, Finding& finding) {
  for (const RankConnection& connection : job.connections()) {
    if (connection.from == rank && connection.socket->receive_queue > 0) {
      const TcpSocket* before = job.before(rank, *connection.socket);
      if (before != nullptr && before->receive_queue == connection.socket->receive_queue) {
        finding.evidence.push_back(
            {"sock_diag",
             connection.socket->receive_queue,
             fmt::format("{} from {} lie in its socket, and it does not read them",
                         format_size(connection.socket->receive_queue), job.short_name(connection.to)),
             {}});
        return;
      }
    }
  }
}

std::string waiters_text(const Job& job, const std::vector<size_t>& waiting) {
  const std::string call = "in " + call_text(job.ranks()[waiting.front()]);
  const bool all_there =
      std::ranges::all_of(waiting, [&](size_t rank) { return "in " + call_text(job.ranks()[rank]) == call; });
  return fmt::format("{} {} waited {}{}", job.names(waiting), waiting.size() == 1 ? "has" : "have",
                     all_there ? call + " " : "", waited_text(job));
}

void blame(const Job& job, const std::vector<size_t>& waiting, const std::vector<size_t>& outside, size_t rank,
           std::vector<Finding>& findings) {
  const bool set_up = in_set_up(job, waiting);
  Finding finding = job.finding(set_up ? Cause::kInitFailure : Cause::kMissingCollective, severity_of_wait(job),
                                outside.size() <= waiting.size() ? 0.9 : 0.7);
  finding.culprit = job.culprit(rank);
  finding.summary = fmt::format("{} is alive, {}, and in no collective call: {}.", capitalised(job.name(rank)),
                                job.doing(rank), waiters_text(job, waiting));
  finding.evidence.push_back(doing_evidence(job, rank));
  add_unread(job, rank, finding);
  add_waiting(job, finding);
  std::vector<size_t> compared = waiting;
  compared.push_back(rank);
  job.limit_confidence(finding, compared);
  finding.remedy =
      fmt::format("see why pid {} on {} is there (stalltrace stacks --pid {} has all its threads); {}",
                  job.ranks()[rank].pid, job.ranks()[rank].node, job.ranks()[rank].pid, analysis::kLookForAbsence);
  findings.push_back(std::move(finding));
}

void blame_no_rank(const Job& job, const std::vector<size_t>& waiting, const std::vector<size_t>& outside,
                   std::vector<Finding>& findings) {
  Finding finding = job.finding(Cause::kMissingCollective, severity_of_wait(job), 0.7);
  if (waiting.size() == 1) {
    finding.culprit = job.culprit(waiting.front());
  }
  finding.summary = fmt::format("Only {} of {} ranks {} wait in a call ({}), the others are elsewhere: {}.",
                                waiting.size(), job.ranks().size(), job.here(), job.where(waiting), job.where(outside));
  std::vector<size_t> compared = waiting;
  compared.insert(compared.end(), outside.begin(), outside.end());
  job.limit_confidence(finding, compared);
  add_waiting(job, finding);
  finding.remedy = analysis::kLookForUnevenCalls;
  findings.push_back(std::move(finding));
}

std::string key_of(const Job& job, size_t rank) {
  const OpenCall& call = *job.ranks()[rank].call;
  return call.op ? std::string(display_name(*call.op)) : call.name;
}

}  // namespace

Severity severity_of_wait(const Job& job) {
  return job.hung_ns() >= analysis::kBlockedWaitNs ? Severity::kCritical : Severity::kWaiting;
}

void find_missing(const Job& job, std::vector<Finding>& findings) {
  const std::vector<size_t> waiting = waiting_ranks(job);
  std::vector<size_t> outside;
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    if (job.is_outside(i)) {
      outside.push_back(i);
    }
  }
  if (waiting.empty() || outside.empty()) {
    return;
  }
  if (outside.size() > waiting.size()) {
    // More ranks are elsewhere than came: which of the two groups is wrong is not known.
    blame_no_rank(job, waiting, outside, findings);
    return;
  }
  for (size_t i = 0; i < std::min(outside.size(), kMostBlamed); ++i) {
    blame(job, waiting, outside, outside[i], findings);
  }
}

void find_different_calls(const Job& job, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<size_t>> by_call;
  std::map<std::string, std::vector<size_t>> by_line;
  bool python = true;
  const std::vector<size_t> waiting = waiting_ranks(job);
  for (const size_t rank : waiting) {
    by_call[key_of(job, rank)].push_back(rank);
    by_line[key_of(job, rank) + job.ranks()[rank].location].push_back(rank);
    python = python && job.ranks()[rank].call->witness == Witness::kPython;
  }
  const auto& groups = by_call.size() < 2 && python ? by_line : by_call;
  if (groups.size() < 2) {
    return;
  }
  std::vector<std::vector<size_t>> sorted;
  for (const auto& [call, ranks] : groups) {
    sorted.push_back(ranks);
  }
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &std::vector<size_t>::size);
  const bool one_against_many = sorted.size() == 2 && sorted[1].size() == 1 && sorted[0].size() > 1;
  Finding finding = job.finding(Cause::kMissingCollective, severity_of_wait(job), one_against_many ? 0.8 : 0.6);
  if (one_against_many) {
    finding.culprit = job.culprit(sorted[1].front());
  }
  finding.summary = fmt::format(
      "Ranks wait for each other in different calls, a deadlock{}: {}; they have waited {}.",
      one_against_many ? fmt::format(" ({} is in one that the others are not in)", job.name(sorted[1].front())) : "",
      job.where(waiting), waited_text(job));
  job.limit_confidence(finding, waiting);
  add_waiting(job, finding);
  finding.remedy =
      "let all ranks make the same calls in the same order; look for a call under a condition that only some ranks "
      "meet, "
      "and for Sends and Recvs that depend on each other";
  findings.push_back(std::move(finding));
}

void find_unknown(const Job& job, std::vector<Finding>& findings) {
  const std::vector<size_t> waiting = waiting_ranks(job);
  if (waiting.empty()) {
    return;
  }
  std::vector<std::string> missing;
  std::vector<size_t> unclear;
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    const RankState& rank = job.ranks()[i];
    if (!job.waits(i) && !job.is_outside(i) && !job.stopped(i)) {
      unclear.push_back(i);
      const std::string why = !rank.problem.empty()        ? rank.problem
                              : !rank.call_problem.empty() ? rank.call_problem
                              : job.gets_on(i)
                                  ? "it made calls or exchanged data in between; then it was " + job.doing(i)
                                  : "it moved between the two snapshots: " + job.doing(i);
      missing.push_back(fmt::format("whether {} is inside a call ({})", job.short_name(i), why));
    }
  }
  if (const auto absent = job.absent(); !absent.empty()) {
    const auto addresses = foreign_addresses(job);
    missing.push_back(fmt::format("{} {}{}", count_of(static_cast<int64_t>(absent.size()), "rank"),
                                  job.on_several_hosts() ? "that no file shows" : "on other hosts",
                                  addresses.empty() ? "" : fmt::format(" ({})", fmt::join(addresses, ", "))));
  }
  missing.emplace_back(
      "which call by number each rank is in, and with which size: only a recording from before the hang, "
      "NCCL's RAS or PyTorch's flight recorder have them");
  const bool here = unclear.empty() && job.absent().empty();
  Finding finding = job.finding(Cause::kUnknown, severity_of_wait(job), 0.5);
  finding.summary =
      fmt::format("{}, and nothing {} shows why: {}.", capitalised(waiters_text(job, waiting)), job.here(),
                  here ? "all ranks are in the call, none is stopped, and no connection between them has "
                         "data that are not acknowledged or not read"
                       : fmt::format("no rank {} that could be read is elsewhere, is stopped, or has a "
                                     "silent connection",
                                     job.here()));
  add_waiting(job, finding);
  finding.evidence.push_back({"missing_evidence",
                              static_cast<int64_t>(missing.size()),
                              fmt::format("not known: {}", fmt::join(missing, "; ")),
                              {}});
  finding.remedy =
      job.absent().empty()
          ? "import the flight recorder's dumps or the NCCL logs of all ranks (stalltrace import), or start "
            "the job again under stalltrace run"
          : "run stalltrace autopsy --out FILE on the hosts of the other ranks too, and give the files of all hosts to "
            "stalltrace autopsy: one of them may be elsewhere";
  findings.push_back(std::move(finding));
}

}  // namespace stalltrace::autopsy
