// SPDX-License-Identifier: Apache-2.0
// How many calls each rank launched, by NCCL's RAS and by the communicators in the ranks' memory. Both are judged as
// `explain` judges reports of RAS, beside what the snapshots show.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "analysis/launches/judge_launches.h"
#include "autopsy/judge/job.h"
#include "base/clock.h"
#include "base/net/loopback.h"
#include "base/text.h"
#include "model/events/imported/ras_statement.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"

namespace stalltrace::autopsy {
namespace {

/// Where numbers of launches come from.
struct CountedBy {
  std::string_view name;
  std::string_view kind;  // of evidence
  bool from_log = false;  // an import of it has rows of log_line
};
constexpr CountedBy kByRas{"NCCL's RAS", "nccl_ras", true};
constexpr CountedBy kByMemory{"NCCL's memory", "nccl_memory"};

/// A node that has reports, as the import of an answer of RAS makes it.
void add_node(NodeId id, const std::string& name, std::string_view format, TimeRange time, MemorySource& source) {
  Node node{.node_id = id, .name = name, .agent_version = std::string(format)};
  node.started_ns = time.from_ns;
  node.ended_ns = time.to_ns;
  node.missing_evidence = std::string(kLacksDurations) + " " + std::string(kLacksCalls);
  source.accept(std::move(node));
}

void add_report(NodeId id, int64_t time_ns, const std::string& report, const std::vector<std::string>& statements,
                MemorySource& source) {
  LogLine row{.node_id = id, .timestamp_ns = time_ns, .kind = LogKind::kVersion, .line = 1};
  row.text = report;
  source.accept(row);
  row.kind = LogKind::kEnd;
  for (const std::string& statement : statements) {
    ++row.line;
    row.text = statement;
    source.accept(row);
  }
}

/// The ranks of one communicator whose processes hold it, by their index in Job::ranks().
struct HeldCommunicator {
  std::vector<std::pair<size_t, const stacks::NcclCommunicator*>> members;
  bool whole_job = true;      // it has the ranks of the job, by the same numbers
  bool contradicted = false;  // two processes claim one rank, or another size
};

std::map<CommHash, HeldCommunicator> held_communicators(const Job& job) {
  std::map<CommHash, HeldCommunicator> all;
  std::map<CommHash, std::set<int32_t>> claimed;
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    const RankState& rank = job.ranks()[i];
    for (const stacks::NcclCommunicator& one : rank.communicators) {
      HeldCommunicator& held = all[one.hash];
      held.contradicted = held.contradicted || !claimed[one.hash].insert(one.rank).second ||
                          (!held.members.empty() && held.members.front().second->nranks != one.nranks);
      held.whole_job = held.whole_job && one.nranks == job.world_size() && rank.rank == one.rank;
      held.members.emplace_back(i, &one);
    }
  }
  return all;
}

std::string statement_of(const RankState& rank, const stacks::NcclCommunicator& one, bool whole_job) {
  RasStatement statement{.hash = one.hash, .nranks = one.nranks, .whole_job = whole_job, .rank = one.rank};
  statement.host = rank.node;
  statement.pid = rank.pid;
  statement.gpu = one.device;
  statement.state = RasState::kRunning;
  statement.launched = one.launched;
  return ras_text(statement);
}

/// What the ranks' memory showed in both snapshots, as two reports. False: no two ranks hold one communicator.
bool add_memory_reports(const Job& job, MemorySource& source, std::vector<std::string>& notes) {
  std::vector<std::string> before;
  std::vector<std::string> now;
  std::set<size_t> processes;
  int64_t communicators = 0;
  int64_t contradicted = 0;
  for (const auto& [hash, held] : held_communicators(job)) {
    contradicted += held.contradicted ? 1 : 0;
    if (held.contradicted || held.members.size() < 2) {
      continue;
    }
    ++communicators;
    for (const auto& [index, one] : held.members) {
      const RankState& rank = job.ranks()[index];
      processes.insert(index);
      now.push_back(statement_of(rank, *one, held.whole_job));
      const RankState* earlier = job.before(index);
      if (earlier == nullptr) {
        continue;
      }
      const auto same = std::ranges::find(earlier->communicators, one->hash, &stacks::NcclCommunicator::hash);
      if (same != earlier->communicators.end()) {
        before.push_back(statement_of(rank, *same, held.whole_job));
      }
    }
  }
  if (contradicted > 0) {
    notes.push_back(
        fmt::format("{} in NCCL's memory {} judged: two processes are the same rank of one, or do not agree "
                    "on its size",
                    count_of(contradicted, "communicator"), contradicted == 1 ? "is not" : "are not"));
  }
  if (now.empty()) {
    return false;
  }
  const std::string report = fmt::format("{} of {} that were read", count_of(communicators, "communicator"),
                                         count_of(static_cast<int64_t>(processes.size()), "rank"));
  add_node(1, std::string(kByMemory.name), kNcclMemoryFormat, job.watched_utc(), source);
  add_report(1, job.watched_utc().from_ns, report, before, source);
  add_report(1, job.watched_utc().to_ns, report, now, source);
  return true;
}

bool add_ras_reports(const Job& job, MemorySource& source) {
  NodeId id = 0;
  for (const RasAccount& account : job.context().ras) {
    if (!job.ranks().empty() && account.job == job.ranks().front().job) {
      add_node(++id, "NCCL's RAS at " + account.address, kRasFormat, {account.asked_ns, account.asked_ns}, source);
      add_report(id, account.asked_ns, account.report, account.statements, source);
    }
  }
  return id != 0;
}

/// A process is named by its host's address or name, and pid: the rank of the snapshots that it is. Pids of other hosts
/// and containers may be equal by chance.
std::optional<size_t> rank_of(const Job& job, const Finding& finding) {
  if (!finding.culprit) {
    return std::nullopt;
  }
  std::optional<size_t> found;
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    const RankState& rank = job.ranks()[i];
    const Culprit& culprit = *finding.culprit;
    const bool same_rank = culprit.rank && rank.rank == culprit.rank;
    const bool same_host = culprit.node == rank.node || (job.has_address(culprit.node, rank.node) &&
                                                         !(job.on_several_hosts() && is_loopback(culprit.node)));
    const bool same_pid = culprit.pid != 0 && rank.pid == culprit.pid && same_host;
    // In a container a process knows itself by another number.
    if (same_rank || (same_pid && !culprit.rank)) {
      if (found) {
        return std::nullopt;
      }
      found = i;
    }
  }
  return found;
}

void judge_counts(const Job& job, MemorySource& source, const CountedBy& by, std::vector<Finding>& findings,
                  std::vector<std::string>& notes) {
  Report report;
  if (!analysis::add_launches(source, report)) {
    return;
  }
  std::ranges::move(report.notes, std::back_inserter(notes));
  const bool nothing_else = findings.size() == 1 && findings.front().cause == Cause::kUnknown;
  std::vector<Finding> more;
  for (Finding& finding : report.findings) {
    const auto rank = rank_of(job, finding);
    if (rank) {
      const Culprit here = job.culprit(*rank);
      const auto blamed = std::ranges::find_if(findings, [&](const Finding& other) {
        return other.culprit && other.culprit->pid == here.pid && other.culprit->node == here.node;
      });
      if (blamed != findings.end()) {
        blamed->evidence.push_back({std::string(by.kind), 1, finding.summary, {}});
        continue;
      }
      finding.culprit = here;
    }
    if (!nothing_else) {
      notes.push_back(fmt::format("{} alone shows: {}", by.name, finding.summary));
      continue;
    }
    if (finding.cause == Cause::kMissingCollective) {
      finding.severity = severity_of_wait(job);
    }
    for (Evidence& one : finding.evidence) {
      one.kind = by.from_log ? one.kind : std::string(by.kind);
    }
    finding.window = job.finding(finding.cause, finding.severity, finding.confidence).window;
    finding.stall_ms = static_cast<double>(job.hung_ns()) / static_cast<double>(kNsPerMs);
    add_waiting(job, finding);
    more.push_back(std::move(finding));
  }
  if (!more.empty()) {
    std::erase_if(findings, [](const Finding& finding) { return finding.cause == Cause::kUnknown; });
  }
  std::ranges::move(more, std::back_inserter(findings));
}

}  // namespace

void add_launch_counts(const Job& job, std::vector<Finding>& findings, std::vector<std::string>& notes) {
  MemorySource by_ras;
  if (add_ras_reports(job, by_ras)) {
    judge_counts(job, by_ras, kByRas, findings, notes);
  }
  MemorySource by_memory;
  if (add_memory_reports(job, by_memory, notes)) {
    judge_counts(job, by_memory, kByMemory, findings, notes);
  }
}

}  // namespace stalltrace::autopsy
