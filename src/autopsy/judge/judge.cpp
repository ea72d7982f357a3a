// SPDX-License-Identifier: Apache-2.0
#include "autopsy/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "autopsy/judge/job.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::autopsy {
namespace {

Snapshot of_job(const Snapshot& snapshot, const std::string& job) {
  Snapshot part{.taken_ns = snapshot.taken_ns, .ranks = {}, .host_addresses = snapshot.host_addresses};
  std::ranges::copy_if(snapshot.ranks, std::back_inserter(part.ranks),
                       [&](const RankState& rank) { return rank.job == job; });
  return part;
}

void add_limits(const Job& job, JobVerdict& verdict) {
  std::set<std::string> problems;
  for (const RankState& rank : job.ranks()) {
    for (const std::string& problem : {rank.problem, rank.no_sockets}) {
      if (!problem.empty()) {
        problems.insert(problem);
      }
    }
  }
  if (!problems.empty()) {
    verdict.notes.push_back(fmt::format("not everything could be read, which root can: {}{}", *problems.begin(),
                                        problems.size() > 1 ? fmt::format(" (and {} more)", problems.size() - 1) : ""));
  }
}

/// Connections of a job that gets on: they may slow it.
void add_retries(const Job& job, JobVerdict& verdict) {
  std::set<std::string> links;
  for (const RankConnection& connection : job.connections()) {
    if (connection.socket->timer == Timer::kRetransmit && connection.socket->tries > 0) {
      links.insert(fmt::format("{} to {}", job.short_name(connection.from), job.short_name(connection.to)));
    }
  }
  if (!links.empty()) {
    verdict.notes.push_back(
        fmt::format("data are being repeated from {}{}: what that costs, a trace shows", *links.begin(),
                    links.size() > 1 ? fmt::format(" and on {} more links", links.size() - 1) : ""));
  }
}

void add_untraced(const Job& job, JobVerdict& verdict) {
  for (const auto& [node, traced] : job.context().traced) {
    const bool holds_ranks =
        std::ranges::any_of(job.ranks(), [&node = node](const RankState& rank) { return rank.node == node; });
    if (holds_ranks && !traced.done && !traced.problem.empty()) {
      verdict.notes.push_back(fmt::format(
          "{}calls that ended in between were not counted ({}): a job whose data use no sockets may get on unseen",
          job.on_several_hosts() ? node + ": " : "", traced.problem));
    }
  }
}

JobVerdict judge_job(const Job& job, const std::string& name) {
  JobVerdict verdict{.job = name, .ranks = static_cast<int64_t>(job.ranks().size())};
  if (job.ranks().empty()) {
    judge_ended(job, verdict);
    return verdict;
  }
  add_limits(job, verdict);
  std::vector<Finding>& findings = verdict.findings;
  const std::string progress = progress_of(job);
  if (!progress.empty()) {
    verdict.state = JobState::kProgresses;
    verdict.text = "not hung: " + progress;
    add_retries(job, verdict);
    return verdict;
  }
  add_untraced(job, verdict);
  find_stopped(job, findings);
  find_dead(job, findings, verdict.notes);
  find_silent_links(job, findings);
  find_missing(job, findings);
  find_unread(job, findings);
  if (findings.empty()) {
    find_different_calls(job, findings);
  }
  if (findings.empty()) {
    find_unknown(job, findings);
  }
  std::vector<size_t> all;
  bool known = true;
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    all.push_back(i);
    known = known && (job.ranks()[i].call_known || job.stopped(i));
  }
  if (!findings.empty() || !known) {
    add_launch_counts(job, findings, verdict.notes);
  }
  if (!findings.empty()) {
    verdict.state = JobState::kHangs;
    verdict.text = findings.front().summary;
    return verdict;
  }
  verdict.state = known ? JobState::kNoRankWaits : JobState::kNotKnown;
  verdict.text = fmt::format(
      "{}: {}",
      known ? fmt::format("no rank {} waits for another", job.here())
            : fmt::format("whether a rank {} waits for another is not known, not all could be read", job.here()),
      job.where(all));
  return verdict;
}

}  // namespace

std::string_view to_text(JobState state) {
  switch (state) {
    case JobState::kProgresses:
      return "progresses";
    case JobState::kNoRankWaits:
      return "nobody_waits";
    case JobState::kNotKnown:
      return "not_known";
    case JobState::kEnded:
      return "ended";
    case JobState::kHangs:
      break;
  }
  return "hangs";
}

std::vector<JobVerdict> judge(const std::vector<Snapshot>& snapshots, const Context& context) {
  std::set<std::string> names;
  for (const Snapshot& snapshot : snapshots) {
    for (const RankState& rank : snapshot.ranks) {
      names.insert(rank.job);
    }
  }
  std::vector<JobVerdict> verdicts;
  for (const std::string& name : names) {
    const Job job(of_job(snapshots.front(), name), of_job(snapshots.back(), name), context);
    verdicts.push_back(judge_job(job, name));
  }
  return verdicts;
}

}  // namespace stalltrace::autopsy
