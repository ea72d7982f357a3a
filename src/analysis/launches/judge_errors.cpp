// SPDX-License-Identifier: Apache-2.0
// Errors of ranks that NCCL's RAS reports: which rank failed first, and which only learned of it.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "analysis/launches/judge_parts.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"
#include "model/events/imported/nccl_return.h"

namespace stalltrace::analysis {
namespace {

/// Ranks of a communicator that reported an error.
struct Failed {
  const RasComm* comm;
  const RasRank* rank;  // null: they are not named
  int32_t error;
  int64_t members = 1;

  /// What failed is not another process.
  [[nodiscard]] bool own() const { return error != kRemoteError; }
};

/// Whose error it is. Of a rank without a process that is known, its number on its communicator.
using FailedProcess = std::tuple<RasIdentity, CommHash, int32_t>;

FailedProcess process_of(const Failed& one) {
  if (one.rank == nullptr) {
    return {RasIdentity(), one.comm->hash, -1};
  }
  return one.rank->pid == 0 ? FailedProcess(RasIdentity(), one.comm->hash, one.rank->rank)
                            : FailedProcess(one.rank->identity(), 0, 0);
}

int64_t ranks_of(const std::vector<Failed>& failed) {
  int64_t count = 0;
  for (const Failed& one : failed) {
    count += one.members;
  }
  return count;
}

class ErrorJudge {
 public:
  ErrorJudge(const RasReportView& newest, LaunchVerdicts& verdicts) : newest_(newest), verdicts_(verdicts) {}

  void judge() {
    if (const std::vector<Failed> failed = failed_in(true); !failed.empty()) {
      verdicts_.findings.push_back(finding_on(failed, true));
    }
    std::vector<Failed> unexplained;
    bool own = false;
    for (const Failed& one : failed_in(false)) {
      if (Finding* of_it = finding_with(one)) {
        add_evidence({one}, *of_it);
      } else {
        own = own || one.own();
        unexplained.push_back(one);
      }
    }
    if (unexplained.empty()) {
      return;
    }
    if (!own && !verdicts_.findings.empty()) {  // errors of others are what a fault leads to
      return add_evidence(unexplained, verdicts_.findings.front());
    }
    verdicts_.findings.push_back(finding_on(unexplained, false));
  }

 private:
  [[nodiscard]] std::vector<Failed> failed_in(bool set_up) const {
    std::vector<Failed> failed;
    for (const auto& [hash, comm] : newest_.comms) {
      for (const auto& [number, rank] : comm.ranks) {
        if (const int32_t error = set_up ? rank.init_error : rank.async_error; error != 0) {
          failed.push_back({&comm, &rank, error});
        }
      }
      for (const auto& [error, members] : set_up ? comm.unnamed_init_errors : comm.unnamed_async_errors) {
        failed.push_back({&comm, nullptr, error, members});
      }
    }
    return failed;
  }

  /// The finding that an error belongs to: on the same process, or that a process is gone, which others notice.
  Finding* finding_with(const Failed& one) {
    Finding* gone = nullptr;
    for (Finding& finding : verdicts_.findings) {
      gone = finding.cause == Cause::kDeadRank ? &finding : gone;
      if (one.rank == nullptr || !finding.culprit) {
        continue;
      }
      const Culprit who = culprit_of(newest_, *one.comm, *one.rank);
      const bool same_process = who.pid != 0 && who.pid == finding.culprit->pid && who.node == finding.culprit->node;
      if (same_process || (who.rank && who.rank == finding.culprit->rank)) {
        return &finding;
      }
    }
    return gone;
  }

  void add_evidence(const std::vector<Failed>& failed, Finding& finding) const {
    for (size_t i = 0; i < std::min(failed.size(), kLinesListed); ++i) {
      const Failed& one = failed[i];
      const std::string who = one.rank != nullptr
                                  ? rank_text(newest_, *one.comm, *one.rank)
                                  : fmt::format("{} of communicator {}, which RAS does not name",
                                                count_of(one.members, "rank"), format_hash(one.comm->hash));
      finding.evidence.push_back(line_of(newest_, fmt::format("{}: {}", who, nccl_error_text(one.error)), one.members));
    }
  }

  [[nodiscard]] Finding finding_on(const std::vector<Failed>& failed, bool set_up) const {
    std::set<FailedProcess> own;
    const Failed* first = nullptr;
    for (const Failed& one : failed) {
      if (one.own()) {
        own.insert(process_of(one));
        first = first == nullptr ? &one : first;
      }
    }
    Finding finding = set_up ? finding_of(newest_, Cause::kInitFailure, Severity::kCritical, kStandingStillConfidence)
                             : finding_of(newest_, Cause::kUnknown, Severity::kHigh, kUnknownConfidence);
    finding.op = set_up ? Operation::kCommInitRank : finding.op;
    const bool one = own.size() == 1 && first->rank != nullptr;
    if (one) {
      finding.culprit = culprit_of(newest_, *first->comm, *first->rank);
    }
    finding.comm_id_hash = failed.front().comm->hash;
    finding.summary = fmt::format(
        "{} {}; RAS does not show why.",
        one ? fmt::format("{}: NCCL reported \"{}\"", capitalised(rank_text(newest_, *first->comm, *first->rank)),
                          nccl_error_text(first->error))
            : fmt::format("NCCL failed on {}", count_of(ranks_of(failed), "rank")),
        set_up ? "while a communicator was set up" : "while the job ran");
    add_evidence(failed, finding);
    finding.remedy =
        one ? "look at the first warning in the NCCL log of that rank (NCCL_DEBUG=WARN), and at its host's kernel log"
            : "look at the first warnings in the NCCL logs of all ranks (NCCL_DEBUG=WARN), and at their hosts' kernel "
              "logs";
    return finding;
  }

  const RasReportView& newest_;
  LaunchVerdicts& verdicts_;
};

}  // namespace

void judge_errors(std::span<const RasReportView> reports, LaunchVerdicts& verdicts) {
  ErrorJudge(reports.back(), verdicts).judge();
}

}  // namespace stalltrace::analysis
