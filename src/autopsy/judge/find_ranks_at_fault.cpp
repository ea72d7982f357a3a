// SPDX-License-Identifier: Apache-2.0
// Ranks that are stopped, ranks that are not there, and jobs that ended.
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
constexpr size_t kEndedNamed = 8;

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

/// "rank 2 (pid 4711), rank 3 (pid 4712)"; of many the first few.
std::string ended_names(const Job& job) {
  std::vector<std::string> names;
  for (const RankState& rank : job.ended()) {
    if (names.size() < kEndedNamed) {
      names.push_back(rank.rank ? fmt::format("rank {} (pid {})", *rank.rank, rank.pid)
                                : fmt::format("pid {}", rank.pid));
    }
  }
  const size_t more = job.ended().size() - names.size();
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

/// No rank that is left is in a call, so none waits for those that are gone. A job that ends looks so: its ranks end
/// one after the other, or one still writes a file.
bool none_left_in_a_call(const Job& job) {
  return std::ranges::all_of(job.ranks(), [](const RankState& rank) {
    return rank.run_state == RunState::kAlive && rank.call_known && !rank.call;
  });
}

/// A rank that the launcher put on a node together with all others; null if it put some elsewhere, or that is not
/// known.
const RankState* on_one_node(std::span<const RankState> ranks) {
  const auto found = std::ranges::find_if(
      ranks, [](const RankState& rank) { return rank.world_size && rank.local_size == rank.world_size; });
  return found == ranks.end() ? nullptr : &*found;
}

/// Processes that ended between the snapshots. Others follow the first; a rank that had no process before may have been
/// it.
void add_ended(const Job& job, const std::vector<int32_t>& absent, std::vector<Finding>& findings) {
  const bool one = job.ended().size() == 1 && absent.empty();
  Finding finding = job.finding(Cause::kDeadRank, Severity::kCritical, one ? 0.95 : 0.6);
  if (one) {
    const RankState& ended = job.ended().front();
    finding.culprit = Culprit{ended.node, ended.rank, ended.pid};
  } else if (absent.size() == 1) {
    finding.culprit = Culprit{"", absent.front(), 0};
  }
  finding.summary = fmt::format("{} ended while this program watched{}.", capitalised(ended_names(job)),
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
  const bool one = job.absent().size() == 1;
  if (job.may_be_elsewhere()) {
    return fmt::format("of {} {} no process {} that is known to be {}", job.world_size(), one ? "has" : "have",
                       job.here(), one ? "its own" : "theirs");
  }
  return job.on_several_hosts() ? fmt::format("of {} {} not looked at: no file shows {}", job.world_size(),
                                              one ? "was" : "were", one ? "it" : "them")
                                : fmt::format("of {} {} not {}", job.world_size(), one ? "is" : "are",
                                              job.here() == "here" ? "on this host" : job.here());
}

}  // namespace

void judge_ended(const Job& job, JobVerdict& verdict) {
  verdict.state = JobState::kEnded;
  if (job.ended().empty()) {  // seen in neither of the two that are compared
    verdict.text = fmt::format("none of its processes {} is left", job.here());
    return;
  }
  verdict.text = fmt::format("all its processes {} ended while this program watched: {}", job.here(), ended_names(job));
  verdict.notes.emplace_back(
      "whether it ended as it should is not known, since only its launcher sees the exit codes: if it should still "
      "run, read its log");
  std::vector<std::string> locations;
  for (const RankState& rank : job.ended()) {
    if (locations.size() < kMostEnded && !rank.location.empty()) {
      locations.push_back(fmt::format("pid {} was {}", rank.pid, rank.location));
    }
  }
  if (!locations.empty()) {
    verdict.notes.push_back(fmt::format("before the end {}", fmt::join(locations, "; ")));
  }
  const std::vector<int32_t> absent = job.absent();
  if (!absent.empty() && on_one_node(job.ended()) != nullptr) {
    verdict.notes.push_back(fmt::format("{} had no process {} before that: if the job failed, read {} first",
                                        analysis::ranks_text(absent), job.here(),
                                        absent.size() == 1 ? "its log" : "their logs"));
  } else if (!absent.empty()) {
    verdict.notes.push_back(fmt::format("{} {}: {} may wait for those that ended, or may have ended before",
                                        analysis::ranks_text(absent), not_here(job),
                                        absent.size() == 1 ? "it" : "they"));
  }
}

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
  if (!job.ended().empty() && !none_left_in_a_call(job)) {
    add_ended(job, absent, findings);
    return;
  }
  if (!job.ended().empty()) {
    notes.push_back(
        fmt::format("{} ended while this program watched, and no rank that is left was in a call then: the job may be "
                    "ending; if it should still run, read {} first",
                    ended_names(job), job.ended().size() == 1 ? "its log" : "their logs"));
  }
  if (absent.empty()) {
    return;
  }
  const RankState* beside = on_one_node(job.ranks());
  const std::vector<std::string> foreign = foreign_addresses(job);
  const bool ends_closed = foreign.empty() && !half_closed(job).empty() && !job.may_be_elsewhere();
  if ((beside != nullptr || ends_closed) && none_left_in_a_call(job)) {
    notes.push_back(
        fmt::format("{} of {} {} no process any more, and no rank that is left is in a call: the job may be "
                    "ending; if it should still run, look again when they wait",
                    analysis::ranks_text(absent), job.world_size(), absent.size() == 1 ? "has" : "have"));
  } else if (beside != nullptr) {
    add_dead(job, absent, beside->node, 0.9,
             "the launcher put all ranks of the job on this node, and these have no process", findings);
  } else if (ends_closed) {
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
