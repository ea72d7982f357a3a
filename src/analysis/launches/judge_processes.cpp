// SPDX-License-Identifier: Apache-2.0
// Processes that RAS's reports list as dead or not answering.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/launches/judge_parts.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

class ProcessJudge {
 public:
  ProcessJudge(std::span<const RasReportView> reports, LaunchVerdicts& verdicts)
      : older_(reports.first(reports.size() - 1)), newest_(reports.back()), verdicts_(verdicts) {}

  void judge() {
    for (const RasState state : {RasState::kDead, RasState::kUnresponsive}) {
      std::map<std::string, std::vector<Gone>> by_host;
      int64_t in_order = 0;
      for (Gone& process : gone(state)) {
        if (process.missed_in == nullptr || process.only_leaving) {
          ++in_order;
          continue;
        }
        by_host[process.process.host].push_back(std::move(process));
      }
      for (const auto& [host, processes] : by_host) {
        add_gone(host, processes, state);
      }
      if (in_order > 0) {
        verdicts_.notes.push_back(
            fmt::format("{} not answer to NCCL's RAS, and no communicator that runs misses {}: as after a job's end",
                        in_order == 1 ? "a process does" : fmt::format("{} processes do", in_order),
                        in_order == 1 ? "it" : "them"));
      }
    }
  }

 private:
  struct Gone {
    RasProcess process;
    std::vector<int32_t> ranks;  // in the job
    const RasComm* missed_in = nullptr;
    bool only_leaving = true;  // the communicators that miss it are taken down
  };

  [[nodiscard]] bool is_dead(const RasRank& rank) const {
    return rank.state == RasState::kDead || std::ranges::any_of(newest_.processes, [&](const RasProcess& process) {
             return process.state == RasState::kDead && process.host == rank.host && process.pid == rank.pid;
           });
  }

  /// Of processes that a communicator misses, and of those that the report lists.
  std::vector<Gone> gone(RasState state) const {
    std::map<std::pair<std::string, int32_t>, Gone> found;
    for (const RasProcess& process : newest_.processes) {
      if (process.state == state) {
        found[{process.host, process.pid}].process = process;
      }
    }
    for (const auto& [hash, comm] : newest_.comms) {
      for (const auto& [number, rank] : comm.ranks) {
        if (!rank.missing() || (state != RasState::kDead && is_dead(rank))) {
          continue;
        }
        const auto process = process_of(found, comm, rank, state);
        if (process == nullptr) {
          continue;
        }
        process->missed_in = process->missed_in == nullptr || comm.whole_job ? &comm : process->missed_in;
        process->only_leaving = process->only_leaving && comm.leaving;
        const auto in_job = newest_.job_rank(comm, rank);
        if (in_job && std::ranges::find(process->ranks, *in_job) == process->ranks.end()) {
          process->ranks.push_back(*in_job);
        }
      }
    }
    std::vector<Gone> out;
    for (auto& [key, process] : found) {
      out.push_back(std::move(process));
    }
    return out;
  }

  template <typename Found>
  Gone* process_of(Found& found, const RasComm& comm, const RasRank& rank, RasState state) const {
    const auto known = found.find({rank.host, rank.pid});
    if (known != found.end()) {
      return &known->second;
    }
    if (rank.pid == 0) {  // NCCL 2.24 and 2.25 list the ranks of processes by number alone
      const bool only = newest_.processes.size() == 1 && comm.missing() == 1 && found.size() == 1;
      return only ? &found.begin()->second : nullptr;
    }
    if (rank.state != state) {
      return nullptr;
    }
    Gone& added = found[{rank.host, rank.pid}];
    added.process = {rank.host, rank.pid, rank.gpu, state};
    return &added;
  }

  static std::string processes_text(const std::string& host, const std::vector<Gone>& processes) {
    std::vector<int32_t> ranks;
    for (const Gone& process : processes) {
      ranks.insert(ranks.end(), process.ranks.begin(), process.ranks.end());
    }
    std::ranges::sort(ranks);
    const std::string where = processes.size() == 1 ? fmt::format("{}, pid {}", host, processes[0].process.pid) : host;
    if (!ranks.empty()) {
      return fmt::format("{} ({})", ranks_text(std::move(ranks)), where);
    }
    return processes.size() == 1 ? fmt::format("pid {} on {}", processes[0].process.pid, host)
                                 : fmt::format("{} processes of {}", processes.size(), host);
  }

  void add_gone(const std::string& host, const std::vector<Gone>& processes, RasState state) {
    const bool dead = state == RasState::kDead;
    const bool again = !dead && std::ranges::all_of(processes, [&](const Gone& one) { return missed_before(one); });
    const std::string who = processes_text(host, processes);
    Finding finding =
        dead ? finding_of(newest_, Cause::kDeadRank, Severity::kCritical, kOutsideConfidence)
             : finding_of(newest_, Cause::kUnknown, again ? Severity::kHigh : Severity::kWaiting, kUnknownConfidence);
    const Gone& first = processes.front();
    const bool one = processes.size() == 1;
    finding.culprit = Culprit{host, one && first.ranks.size() == 1 ? std::optional(first.ranks[0]) : std::nullopt,
                              one ? first.process.pid : 0};
    finding.comm_id_hash = first.missed_in->hash;
    finding.collectives_affected = 1;
    finding.summary =
        dead ? fmt::format(
                   "NCCL's RAS considers {} dead: no answer for a minute, so that {} ended, {} stopped, or the host "
                   "cannot "
                   "be reached.",
                   who, one ? "its process" : "their processes", one ? "is" : "are")
             : fmt::format(
                   "{} did not answer to NCCL's RAS{}: stopped, just ended, or out of reach; which of these it "
                   "is RAS does not show.",
                   capitalised(who), again ? ", in two reports" : "");
    for (size_t i = 0; i < std::min(processes.size(), kLinesListed); ++i) {
      const Gone& process = processes[i];
      finding.evidence.push_back(
          {"log_line",
           1,
           fmt::format("{}: pid {} on {} is {}; communicator {} of {} misses it", newest_.file, process.process.pid,
                       host, to_text(state), format_hash(process.missed_in->hash),
                       count_of(process.missed_in->nranks, "rank")),
           {}});
    }
    finding.remedy = fmt::format(
        "on {}, see whether pid {} still runs and in which state (ps -o stat), how it ended (its log, the kernel's "
        "log, "
        "the scheduler), and whether that host answers at all",
        host, first.process.pid);
    verdicts_.findings.push_back(std::move(finding));
  }

  [[nodiscard]] bool missed_before(const Gone& process) const {
    if (older_.empty()) {
      return false;
    }
    const RasReportView& before = older_.back();
    const auto same = [&](const auto& one) {
      return one.host == process.process.host && one.pid == process.process.pid;
    };
    return std::ranges::any_of(before.processes, same) || std::ranges::any_of(before.comms, [&](const auto& entry) {
             return std::ranges::any_of(entry.second.ranks,
                                        [&](const auto& rank) { return rank.second.missing() && same(rank.second); });
           });
  }

  std::span<const RasReportView> older_;
  const RasReportView& newest_;
  LaunchVerdicts& verdicts_;
};

}  // namespace

void judge_processes(std::span<const RasReportView> reports, LaunchVerdicts& verdicts) {
  ProcessJudge(reports, verdicts).judge();
}

}  // namespace stalltrace::analysis
