// SPDX-License-Identifier: Apache-2.0
// Ranks that are stopped, and ranks that are not there.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/rank_numbers.h"
#include "autopsy/judge/job.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

constexpr size_t kAddressesNamed = 4;
constexpr size_t kMostEnded = 4;  // with a line of evidence

std::string how_stopped(const RankState& rank) {
  switch (rank.run_state) {
    case RunState::kStopped:
      return "stopped by a signal (SIGSTOP or SIGTSTP)";
    case RunState::kDebugged:
      return rank.debugger == 0 ? "stopped by a debugger" : fmt::format("stopped by a debugger, pid {}", rank.debugger);
    case RunState::kFrozen:
      return "frozen by its cgroup's freezer";
    case RunState::kAlive:
      break;
  }
  return "running";
}

std::string stopped_at(const RankState& rank) {
  return rank.call ? "; it was in " + call_text(rank) : rank.call_site ? "; it was " + rank.location : "";
}

std::string remedy_for(const RankState& rank) {
  switch (rank.run_state) {
    case RunState::kDebugged:
      return fmt::format("let the debugger {}continue or detach pid {} on {}",
                         rank.debugger == 0 ? "" : fmt::format("(pid {}) ", rank.debugger), rank.pid, rank.node);
    case RunState::kFrozen:
      return fmt::format(
          "thaw the cgroup of pid {} on {} (cgroup.freeze), and see who froze it: the scheduler, a "
          "container runtime that paused it",
          rank.pid, rank.node);
    case RunState::kStopped:
    case RunState::kAlive:
      break;
  }
  return fmt::format(
      "continue it with kill -CONT {} on {}, then find out who stopped it (kill -STOP, job preemption by "
      "the scheduler, Ctrl-Z)",
      rank.pid, rank.node);
}

/// Sockets whose other end was closed; the process here has not closed its own.
std::vector<OutsideConnection> half_closed(const Job& job) {
  std::vector<OutsideConnection> found;
  std::ranges::copy_if(job.outside(), std::back_inserter(found), [](const OutsideConnection& connection) {
    return connection.socket->state == TcpState::kCloseWait;
  });
  return found;
}

/// `node`: where they were; empty: not known.
void add_dead(const Job& job, const std::vector<int32_t>& absent, const std::string& node, double confidence,
              std::string why, std::vector<Finding>& findings) {
  Finding finding = job.finding(Cause::kDeadRank, Severity::kCritical, confidence);
  if (absent.size() == 1) {
    finding.culprit = Culprit{node, absent.front(), 0};
  }
  finding.summary = fmt::format("{} of {} {} no process any more, while others have waited {}.",
                                capitalised(analysis::ranks_text(absent)), job.world_size(),
                                absent.size() == 1 ? "has" : "have", waited_text(job));
  finding.evidence.push_back({"environment", static_cast<int64_t>(absent.size()), std::move(why), {}});
  const auto closed = half_closed(job);
  if (!closed.empty()) {
    const OutsideConnection& one = closed.front();
    finding.evidence.push_back({"sock_diag",
                                static_cast<int64_t>(closed.size()),
                                fmt::format("{} has a connection whose other end, {}, was closed (CLOSE_WAIT)",
                                            job.short_name(one.from), format_endpoint(one.socket->remote)),
                                {}});
  }
  add_waiting(job, finding);
  finding.remedy = fmt::format("read the log of {}, and the kernel's (dmesg: out of memory); restart the job",
                               analysis::ranks_text(absent));
  findings.push_back(std::move(finding));
}

/// Processes that ended between the snapshots. Others follow the first; a rank that had no process before may have been
/// it.
void add_ended(const Job& job, const std::vector<int32_t>& absent, std::vector<Finding>& findings) {
  std::vector<std::string> names;
  for (const RankState& rank : job.ended()) {
    names.push_back(rank.rank ? fmt::format("rank {} (pid {})", *rank.rank, rank.pid)
                              : fmt::format("pid {}", rank.pid));
  }
  const bool one = names.size() == 1 && absent.empty();
  Finding finding = job.finding(Cause::kDeadRank, Severity::kCritical, one ? 0.95 : 0.6);
  if (one) {
    const RankState& ended = job.ended().front();
    finding.culprit = Culprit{ended.node, ended.rank, ended.pid};
  } else if (absent.size() == 1) {
    finding.culprit = Culprit{"", absent.front(), 0};
  }
  finding.ended_job = job.ranks().empty();
  finding.summary =
      fmt::format("{} ended while this program watched{}.", capitalised(fmt::format("{}", fmt::join(names, ", "))),
                  absent.empty() ? ""
                                 : fmt::format("; {} had no process {} before that, and may have been "
                                               "the first",
                                               analysis::ranks_text(absent), job.here()));
  for (const RankState& rank : job.ended()) {
    if (finding.evidence.size() < kMostEnded) {
      finding.evidence.push_back(
          {"process", 1, fmt::format("before its end pid {} was {}", rank.pid, rank.location), {}});
    }
  }
  add_waiting(job, finding);
  finding.remedy = absent.empty() ? "read its log first: other ranks' errors follow from its end"
                                  : fmt::format("read the log of {} first: the others' errors follow from its end",
                                                analysis::ranks_text(absent));
  findings.push_back(std::move(finding));
}

/// Of ranks that no process has.
std::string not_here(const Job& job) {
  if (job.may_be_elsewhere()) {
    return fmt::format("of {} have no process {} that is known to be theirs", job.world_size(), job.here());
  }
  return job.on_several_hosts()
             ? fmt::format("of {} were not looked at: no file shows them", job.world_size())
             : fmt::format("of {} are not {}", job.world_size(), job.here() == "here" ? "on this host" : job.here());
}

}  // namespace

void find_stopped(const Job& job, std::vector<Finding>& findings) {
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    if (!job.stopped(i) || job.before(i) == nullptr || job.before(i)->run_state == RunState::kAlive) {
      continue;
    }
    const RankState& rank = job.ranks()[i];
    const bool waited_for = !waiting_ranks(job).empty();
    Finding finding = job.finding(Cause::kProcessStopped, waited_for ? Severity::kCritical : Severity::kHigh, 0.97);
    finding.culprit = job.culprit(i);
    finding.summary = fmt::format("{} is {}{}.", capitalised(job.name(i)), how_stopped(rank),
                                  waited_for ? fmt::format(": other ranks have waited {}", waited_text(job)) : "");
    finding.evidence.push_back(
        {"thread_state", 1, fmt::format("all its threads were stopped in both snapshots{}", stopped_at(rank)), {}});
    add_waiting(job, finding);
    finding.remedy = remedy_for(rank);
    findings.push_back(std::move(finding));
  }
}

void find_dead(const Job& job, std::vector<Finding>& findings, std::vector<std::string>& notes) {
  const std::vector<int32_t> absent = job.absent();
  if (!job.ended().empty()) {
    add_ended(job, absent, findings);
    return;
  }
  if (absent.empty()) {
    return;
  }
  const auto on_one_node = std::ranges::find_if(
      job.ranks(), [](const RankState& rank) { return rank.world_size && rank.local_size == rank.world_size; });
  const std::vector<std::string> foreign = foreign_addresses(job);
  if (on_one_node != job.ranks().end()) {
    add_dead(job, absent, on_one_node->node, 0.9,
             "the launcher put all ranks of the job on this node, and these have no process", findings);
  } else if (foreign.empty() && !half_closed(job).empty() && !job.may_be_elsewhere()) {
    add_dead(job, absent, "", 0.75,
             fmt::format("no process {} has these ranks, and the other ends of the job's connections were closed",
                         job.here()),
             findings);
  } else if (foreign.empty()) {
    notes.push_back(fmt::format("{} {}, and no connection shows where they are or were", analysis::ranks_text(absent),
                                not_here(job)));
  } else {
    const size_t named = std::min(foreign.size(), kAddressesNamed);
    notes.push_back(fmt::format("{} {}; the ranks {} are connected to {}{}: look there too",
                                analysis::ranks_text(absent), not_here(job), job.here(),
                                fmt::join(foreign.begin(), foreign.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                                foreign.size() > named ? fmt::format(" and {} more", foreign.size() - named) : ""));
  }
}

}  // namespace stalltrace::autopsy
