// SPDX-License-Identifier: Apache-2.0
// What NCCL's RAS answered, judged as `explain` judges reports of RAS, beside what the snapshots show.
#include <algorithm>
#include <iterator>

#include "analysis/launches/judge_launches.h"
#include "autopsy/judge/job.h"
#include "base/clock.h"
#include "base/net/loopback.h"
#include "model/events/imported/ras_statement.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"

namespace stalltrace::autopsy {
namespace {

/// As rows of an import of the same answer.
void add_rows(const RasAccount& account, NodeId id, MemorySource& source) {
  Node node{.node_id = id, .name = "NCCL's RAS at " + account.address, .agent_version = std::string(kRasFormat)};
  node.started_ns = account.asked_ns;
  node.ended_ns = account.asked_ns;
  node.missing_evidence = std::string(kLacksDurations) + " " + std::string(kLacksCalls);
  LogLine row{.node_id = id, .timestamp_ns = account.asked_ns, .kind = LogKind::kVersion, .line = 1};
  row.text = account.report;
  source.accept(row);
  row.kind = LogKind::kEnd;
  for (const std::string& statement : account.statements) {
    ++row.line;
    row.text = statement;
    source.accept(row);
  }
  source.accept(std::move(node));
}

/// RAS names a process by address and pid: the rank of the snapshots that it is. Pids of other hosts and containers may
/// be equal by chance.
std::optional<size_t> rank_of(const Job& job, const Finding& finding) {
  if (!finding.culprit) {
    return std::nullopt;
  }
  std::optional<size_t> found;
  for (size_t i = 0; i < job.ranks().size(); ++i) {
    const RankState& rank = job.ranks()[i];
    const Culprit& culprit = *finding.culprit;
    const bool same_rank = culprit.rank && rank.rank == culprit.rank;
    const bool same_pid = culprit.pid != 0 && rank.pid == culprit.pid && job.has_address(culprit.node, rank.node) &&
                          !(job.on_several_hosts() && is_loopback(culprit.node));
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

}  // namespace

void add_ras(const Job& job, std::vector<Finding>& findings, std::vector<std::string>& notes) {
  MemorySource source;
  NodeId id = 0;
  for (const RasAccount& account : job.context().ras) {
    if (!job.ranks().empty() && account.job == job.ranks().front().job) {
      add_rows(account, ++id, source);
    }
  }
  Report report;
  if (id == 0 || !analysis::add_launches(source, report)) {
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
        blamed->evidence.push_back({"nccl_ras", 1, finding.summary, {}});
        continue;
      }
      finding.culprit = here;
    }
    if (!nothing_else) {
      notes.push_back("NCCL's RAS alone shows: " + finding.summary);
      continue;
    }
    if (finding.cause == Cause::kMissingCollective) {
      finding.severity = severity_of_wait(job);
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

}  // namespace stalltrace::autopsy
