// SPDX-License-Identifier: Apache-2.0
#include "analysis/launches/judge_launches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "analysis/launches/compare_launches.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostNotes = 8;
constexpr size_t kRanksListed = 8;
constexpr std::string_view kAskAgain =
    "; ask RAS again (stalltrace import --ras localhost:28028): numbers that do not rise show that it stands still";

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

Operation operation_of(std::string_view name) {
  for (const Operation op : {Operation::kBroadcast, Operation::kReduce, Operation::kAllGather,
                             Operation::kReduceScatter, Operation::kAllReduce}) {
    if (display_name(op) == name) {
      return op;
    }
  }
  return Operation::kAllReduce;
}

/// "6649 AllReduce", "6649 collectives"
std::string launches_text(uint64_t count, std::string_view operation) {
  return operation == "Collective" ? count_of(static_cast<int64_t>(count), "collective")
                                   : fmt::format("{} {}", count, operation);
}

/// The words of ncclGetErrorString for numbers of ncclResult_t.
std::string_view error_text(int32_t error) {
  constexpr std::array<std::string_view, 7> kErrors{
      "success",          "unhandled CUDA error", "system error",        "internal error",
      "invalid argument", "invalid usage",        "remote process error"};
  return error >= 0 && static_cast<size_t>(error) < kErrors.size() ? kErrors[static_cast<size_t>(error)]
                                                                   : "an error that this version does not know";
}
constexpr int32_t kRemoteError = 6;

/// Whether ranks that are behind launched anything since the report before the newest.
struct Standing {
  enum class What : uint8_t { kNotKnown, kStandsStill, kRuns };
  What what = What::kNotKnown;
  const RasReportView* since = nullptr;  // the oldest report with the same numbers

  [[nodiscard]] bool stands_still() const { return what == What::kStandsStill; }
};

class Judge {
 public:
  Judge(std::span<const RasReportView> reports, Report& report)
      : older_(reports.first(reports.size() - 1)), newest_(reports.back()), report_(report) {}

  void judge() {
    judge_processes();
    for (const auto& [hash, comm] : newest_.comms) {
      if (const auto difference = compare_launches(comm)) {
        differences_.emplace(hash, *difference);
      }
    }
    for (const auto& [hash, difference] : differences_) {
      judge_difference(newest_.comms.at(hash), difference);
    }
    judge_crossed();
    judge_errors();
    std::ranges::stable_sort(findings_, std::greater<>(), &Finding::severity);
    for (Finding& finding : findings_) {
      add_or_join(std::move(finding));
    }
    note_limits();
  }

 private:
  void note(const RasComm& comm, std::string_view text) {
    if (++notes_ <= kMostNotes) {
      report_.notes.push_back(fmt::format("communicator {} of {} in RAS's report: {}", format_hash(comm.hash),
                                          count_of(comm.nranks, "rank"), text));
    }
  }

  [[nodiscard]] std::string describe(const RasComm& comm, const RasRank& rank) const {
    const auto in_job = newest_.job_rank(comm, rank);
    std::string text = in_job ? fmt::format("rank {}", *in_job)
                              : fmt::format("rank {} of communicator {}", rank.rank, format_hash(comm.hash));
    if (!rank.host.empty()) {
      text += rank.pid == 0 ? fmt::format(" ({})", rank.host) : fmt::format(" ({}, pid {})", rank.host, rank.pid);
    }
    return text;
  }

  [[nodiscard]] std::string names_of(const RasComm& comm, const std::set<int32_t>& ranks) const {
    if (ranks.size() == 1) {
      return describe(comm, comm.ranks.at(*ranks.begin()));
    }
    std::vector<int32_t> in_job;
    for (const int32_t rank : ranks) {
      if (const auto number = newest_.job_rank(comm, comm.ranks.at(rank))) {
        in_job.push_back(*number);
      }
    }
    return in_job.size() == ranks.size()
               ? analysis::ranks_text(std::move(in_job))
               : fmt::format("{} of communicator {}", analysis::ranks_text({ranks.begin(), ranks.end()}),
                             format_hash(comm.hash));
  }

  [[nodiscard]] Culprit culprit(const RasComm& comm, const RasRank& rank) const {
    return {rank.host, newest_.job_rank(comm, rank), rank.pid};
  }

  [[nodiscard]] Finding finding_of(Cause cause, Severity severity, double confidence) const {
    Finding finding{.cause = cause, .severity = severity, .confidence = confidence};
    finding.window = {newest_.time_ns, newest_.time_ns};
    return finding;
  }

  // --- processes that do not answer ---

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

  void judge_processes() {
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
        report_.notes.push_back(
            fmt::format("{} not answer to NCCL's RAS, and no communicator that runs misses {}: as after a job's end",
                        in_order == 1 ? "a process does" : fmt::format("{} processes do", in_order),
                        in_order == 1 ? "it" : "them"));
      }
    }
  }

  static std::string describe(const std::string& host, const std::vector<Gone>& processes) {
    std::vector<int32_t> ranks;
    for (const Gone& process : processes) {
      ranks.insert(ranks.end(), process.ranks.begin(), process.ranks.end());
    }
    std::ranges::sort(ranks);
    const std::string where = processes.size() == 1 ? fmt::format("{}, pid {}", host, processes[0].process.pid) : host;
    if (!ranks.empty()) {
      return fmt::format("{} ({})", analysis::ranks_text(std::move(ranks)), where);
    }
    return processes.size() == 1 ? fmt::format("pid {} on {}", processes[0].process.pid, host)
                                 : fmt::format("{} processes of {}", processes.size(), host);
  }

  void add_gone(const std::string& host, const std::vector<Gone>& processes, RasState state) {
    const bool dead = state == RasState::kDead;
    const bool again = !dead && missed_before(processes.front());
    const std::string who = describe(host, processes);
    Finding finding =
        dead ? finding_of(Cause::kDeadRank, Severity::kCritical, kOutsideConfidence)
             : finding_of(Cause::kUnknown, again ? Severity::kHigh : Severity::kWaiting, kUnknownConfidence);
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
    for (size_t i = 0; i < std::min(processes.size(), kRanksListed); ++i) {
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
    findings_.push_back(std::move(finding));
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

  // --- numbers of launches ---

  [[nodiscard]] Standing standing_of(const RasComm& comm, const LaunchDifference& difference,
                                     const std::set<int32_t>& ranks) const {
    Standing standing;
    for (size_t i = older_.size(); i-- > 0;) {
      const auto before = older_[i].comms.find(comm.hash);
      if (before == older_[i].comms.end()) {
        break;
      }
      bool known = true;
      for (const int32_t rank : ranks) {
        const auto then = before->second.ranks.find(rank);
        for (const LaunchGap& gap : difference.gaps) {
          const auto& now = comm.ranks.at(rank).launched;
          const auto count = now.find(gap.operation);
          if (count == now.end() || then == before->second.ranks.end() ||
              !then->second.launched.contains(gap.operation)) {
            known = false;
          } else if (then->second.launched.at(gap.operation) != count->second) {
            standing.what = standing.stands_still() ? standing.what : Standing::What::kRuns;
            return standing;
          }
        }
      }
      if (!known) {
        break;
      }
      standing.what = Standing::What::kStandsStill;
      standing.since = &older_[i];
    }
    return standing;
  }

  /// The communicator in which a rank is ahead of others, for whom it may wait; null: there is none.
  const RasComm* waited_for_in(const RasComm& comm, const RasRank& rank) const {
    for (const auto& [hash, difference] : differences_) {
      const RasComm& other = newest_.comms.at(hash);
      if (hash != comm.hash && rank.pid != 0 && !difference.diverged &&
          std::ranges::any_of(difference.named_came,
                              [&](int32_t came) { return other.ranks.at(came).identity() == rank.identity(); })) {
        return &other;
      }
    }
    return nullptr;
  }

  void judge_difference(const RasComm& comm, const LaunchDifference& difference) {
    if (comm.leaving) {
      return note(comm, "its ranks are taking it down: numbers of launches are not judged");
    }
    if (comm.missing() > 0) {
      return note(comm, "its ranks launched different numbers of calls, and one does not answer, which may be why");
    }
    if (difference.diverged) {
      return add_mismatch(comm, difference);
    }
    if (difference.unnamed_away > 0 || difference.away.empty()) {
      return note(
          comm, fmt::format(
                    "{} behind, which RAS does not name: ask for JSON or for \"verbose status\"",
                    difference.unnamed_away == 1 ? "1 rank is" : fmt::format("{} ranks are", difference.unnamed_away)));
    }
    const int64_t away = std::ssize(difference.away);
    const bool minority = away < difference.came || (away == 1 && difference.came == 1);
    const std::string behind =
        fmt::format("{} behind {}", names_of(comm, difference.away), count_of(difference.came, "other rank"));
    const auto decline = [&](std::string_view why) { note(comm, fmt::format("{}: {}", behind, why)); };
    if (std::ranges::any_of(difference.gaps, [](const LaunchGap& gap) {
          return gap.next - gap.behind > static_cast<uint64_t>(kMostCallsAhead);
        })) {
      return decline("the others did not wait for it, so that they do not call the same");
    }
    LaunchDifference blamed = difference;
    const RasComm* other = nullptr;
    std::erase_if(blamed.away, [&](int32_t rank) {
      const RasComm* waits_in = waited_for_in(comm, comm.ranks.at(rank));
      other = waits_in == nullptr ? other : waits_in;
      return waits_in != nullptr;
    });
    if (blamed.away.empty()) {
      crossed_.push_back({&comm, other, *difference.away.begin()});
      return decline(
          fmt::format("on communicator {} it is ahead of others, for whom it may wait", format_hash(other->hash)));
    }
    const Standing standing = standing_of(comm, difference, blamed.away);
    if (standing.what == Standing::What::kRuns) {
      return decline("it launched more calls since the report before: the job ran");
    }
    if (!standing.stands_still() && (blamed.away.size() > 1 || !minority)) {
      return decline("one report does not show that the job stands still");
    }
    add_missing(comm, blamed, standing, minority);
  }

  /// Ranks that are behind on one communicator and ahead on another, and nobody else to blame: each may wait for the
  /// other.
  void judge_crossed() {
    const bool blamed = std::ranges::any_of(
        findings_, [](const Finding& finding) { return finding.cause == Cause::kMissingCollective; });
    if (crossed_.size() < 2 || blamed) {
      return;
    }
    Finding finding = finding_of(Cause::kMismatchedCollective, Severity::kWaiting, kOrderAloneConfidence);
    finding.comm_id_hash = crossed_.front().comm->hash;
    finding.op = operation_of(differences_.at(finding.comm_id_hash).gaps.front().operation);
    finding.collectives_affected = std::ssize(crossed_);
    for (size_t i = 0; i < std::min(crossed_.size(), kRanksListed); ++i) {
      const Crossed& one = crossed_[i];
      finding.evidence.push_back({"log_line",
                                  1,
                                  fmt::format("{}: {} is behind on communicator {} and ahead on {}", newest_.file,
                                              describe(*one.comm, one.comm->ranks.at(one.rank)),
                                              format_hash(one.comm->hash), format_hash(one.ahead_in->hash)),
                                  {}});
    }
    finding.summary = fmt::format(
        "Ranks wait for each other on {} communicators, if the job hangs: each of them is behind on one and ahead on "
        "another (one report of a job that runs looks the same).",
        crossed_.size());
    finding.remedy = fmt::format(
        "compare in which order these ranks call collectives on the two communicators: it has to be the same on all of "
        "them{}",
        kAskAgain);
    findings_.push_back(std::move(finding));
  }

  void add_missing(const RasComm& comm, const LaunchDifference& difference, const Standing& standing, bool minority) {
    const int64_t still_ns = standing.since != nullptr && standing.since->timed && newest_.timed
                                 ? newest_.time_ns - standing.since->time_ns
                                 : 0;
    const bool proven = standing.stands_still() && still_ns >= kSilentNs;
    Finding finding = finding_of(Cause::kMissingCollective,
                                 proven && still_ns >= kLongWaitNs ? Severity::kCritical : Severity::kWaiting,
                                 proven ? kStandingStillConfidence : kOrderAloneConfidence);
    const std::set<int32_t>& few = minority ? difference.away : difference.named_came;
    set_culprit(comm, few, finding);
    finding.comm_id_hash = comm.hash;
    finding.op = operation_of(difference.gaps.front().operation);
    finding.collectives_affected = 1;
    finding.stall_ms = static_cast<double>(still_ns) / static_cast<double>(kNsPerMs);
    finding.window.from_ns -= still_ns;
    finding.summary = summary(comm, difference, standing, still_ns, minority);
    for (const LaunchGap& gap : difference.gaps) {
      finding.evidence.push_back(
          {"log_line",
           difference.came,
           fmt::format("{}: {} launched by {}, {} by {}", newest_.file, launches_text(gap.behind, gap.operation),
                       names_of(comm, difference.away), numbers_text(gap), count_of(difference.came, "other rank")),
           {}});
    }
    if (standing.stands_still()) {
      finding.evidence.push_back({"log_line", 1, fmt::format("{}: the same numbers", standing.since->file), {}});
    }
    finding.evidence.push_back(
        {"log_line", 0, "RAS counts launches: whether the call before has ended is not known", {}});
    finding.remedy = fmt::format(
        "see where {} is (stalltrace stacks, py-spy dump), and why its process ended if it did; look for a collective "
        "that only some ranks call, uneven numbers of steps, an input that does not come{}",
        few.empty() ? "each rank" : names_of(comm, few), standing.stands_still() ? "" : kAskAgain);
    const auto same = std::ranges::find_if(findings_, [&](const Finding& one) {
      return one.cause == finding.cause && one.culprit && finding.culprit && finding.culprit->pid != 0 &&
             one.culprit->node == finding.culprit->node && one.culprit->pid == finding.culprit->pid;
    });
    if (same != findings_.end()) {  // on another communicator
      ++same->collectives_affected;
      same->evidence.push_back({"log_line", 1, finding.summary, {}});
      return;
    }
    findings_.push_back(std::move(finding));
  }

  void set_culprit(const RasComm& comm, const std::set<int32_t>& few, Finding& finding) const {
    if (few.size() == 1) {
      finding.culprit = culprit(comm, comm.ranks.at(*few.begin()));
      return;
    }
    std::set<std::string> hosts;
    for (const int32_t rank : few) {
      hosts.insert(comm.ranks.at(rank).host);
    }
    if (hosts.size() == 1 && !hosts.begin()->empty()) {
      finding.culprit = Culprit{*hosts.begin(), std::nullopt, 0};
    }
  }

  static std::string numbers_text(const LaunchGap& gap) {
    return gap.next == gap.front ? launches_text(gap.front, gap.operation)
                                 : fmt::format("{} to {}", gap.next, launches_text(gap.front, gap.operation));
  }

  [[nodiscard]] std::string summary(const RasComm& comm, const LaunchDifference& difference, const Standing& standing,
                                    int64_t still_ns, bool minority) const {
    const LaunchGap& gap = difference.gaps.front();
    const std::set<int32_t>& away = difference.away;
    std::string text;
    if (minority) {
      text = fmt::format("{} launched only {}, {} {}", names_of(comm, away), launches_text(gap.behind, gap.operation),
                         count_of(difference.came, "other rank"), numbers_text(gap));
    } else {
      text = fmt::format(
          "{} launched {}, {} only {}",
          difference.named_came.empty() ? count_of(difference.came, "rank") : names_of(comm, difference.named_came),
          numbers_text(gap), count_of(std::ssize(away), "other rank"), gap.behind);
    }
    if (!standing.stands_still()) {
      return capitalised(text) + "; if the job hangs, look there first (one report of a job that runs looks the same).";
    }
    return capitalised(text) + (still_ns > 0 ? fmt::format("; that did not change for {}.", format_duration(still_ns))
                                             : "; that did not change between two reports.");
  }

  void add_mismatch(const RasComm& comm, const LaunchDifference& difference) {
    Finding finding = finding_of(Cause::kMismatchedCollective, Severity::kHigh, kOrderAloneConfidence);
    finding.comm_id_hash = comm.hash;
    finding.op = operation_of(difference.gaps.front().operation);
    finding.collectives_affected = 1;
    if (difference.odd) {
      finding.culprit = culprit(comm, comm.ranks.at(*difference.odd));
    }
    std::vector<std::string> operations;
    for (const LaunchGap& gap : difference.gaps) {
      operations.push_back(gap.operation);
      std::map<uint64_t, std::vector<int32_t>> sides;
      for (const auto& [number, rank] : comm.ranks) {
        if (const auto count = rank.launched.find(gap.operation); count != rank.launched.end()) {
          sides[count->second].push_back(number);
        }
      }
      for (auto& [count, ranks] : sides) {
        const int64_t size = std::ssize(ranks);
        finding.evidence.push_back(
            {"log_line",
             size,
             fmt::format("{}: {} launched by {}", newest_.file, launches_text(count, gap.operation),
                         names_of(comm, {ranks.begin(), ranks.end()})),
             {}});
        if (finding.evidence.size() > kRanksListed) {
          break;
        }
      }
    }
    finding.summary = fmt::format(
        "{} launched different operations on one communicator ({}): one has more of one, another more of another.",
        difference.odd ? fmt::format("{} and the other {}", capitalised(describe(comm, comm.ranks.at(*difference.odd))),
                                     count_of(comm.nranks - 1, "rank"))
                       : "Ranks",
        fmt::join(operations, ", "));
    finding.remedy =
        "compare the code of these ranks: a collective that one rank called in place of another, or in another order";
    findings_.push_back(std::move(finding));
  }

  // --- errors ---

  struct Failed {
    const RasComm* comm;
    const RasRank* rank;
    int32_t error;
  };

  void judge_errors() {
    for (const bool init : {true, false}) {
      std::vector<Failed> failed;
      for (const auto& [hash, comm] : newest_.comms) {
        for (const auto& [number, rank] : comm.ranks) {
          if (const int32_t error = init ? rank.init_error : rank.async_error; error != 0) {
            failed.push_back({&comm, &rank, error});
          }
        }
      }
      if (!failed.empty()) {
        add_errors(failed, init);
      }
    }
  }

  void add_errors(const std::vector<Failed>& failed, bool init) {
    std::vector<std::string> texts;
    std::set<RasIdentity> own;
    const Failed* first = nullptr;
    for (const Failed& one : failed) {
      if (texts.size() < kRanksListed) {
        texts.push_back(fmt::format("{}: {}", describe(*one.comm, *one.rank), error_text(one.error)));
      }
      if (one.error != kRemoteError) {
        own.insert(one.rank->identity());
        first = first == nullptr ? &one : first;
      }
    }
    const auto add_evidence = [&](Finding& finding) {
      for (const std::string& text : texts) {
        finding.evidence.push_back({"log_line", 1, fmt::format("{}: {}", newest_.file, text), {}});
      }
    };
    if (!findings_.empty() && !init) {
      return add_evidence(findings_.front());
    }
    Finding finding = init ? finding_of(Cause::kInitFailure, Severity::kCritical, kStandingStillConfidence)
                           : finding_of(Cause::kUnknown, Severity::kHigh, kUnknownConfidence);
    finding.op = init ? Operation::kCommInitRank : Operation::kAllReduce;
    if (own.size() == 1) {
      finding.culprit = culprit(*first->comm, *first->rank);
    }
    finding.comm_id_hash = failed.front().comm->hash;
    finding.summary = fmt::format(
        "{} {}; RAS does not show why.",
        own.size() == 1 ? fmt::format("{}: NCCL reported \"{}\"", capitalised(describe(*first->comm, *first->rank)),
                                      error_text(first->error))
                        : fmt::format("NCCL failed on {}", count_of(std::ssize(failed), "rank")),
        init ? "while a communicator was set up" : "while the job ran");
    add_evidence(finding);
    finding.remedy =
        "look at the first warning in the NCCL log of that rank (NCCL_DEBUG=WARN), and at its host's kernel log";
    findings_.push_back(std::move(finding));
  }

  // --- the report ---

  /// A finding on the same rank, from better evidence, gets this as evidence.
  void add_or_join(Finding finding) {
    const auto same = std::ranges::find_if(report_.findings, [&](const Finding& other) {
      return other.cause == finding.cause && other.culprit && finding.culprit && finding.culprit->rank &&
             other.culprit->rank == finding.culprit->rank;
    });
    if (same == report_.findings.end()) {
      report_.findings.push_back(std::move(finding));
      return;
    }
    same->evidence.push_back({"log_line", 1, finding.summary, {}});
  }

  void note_limits() const {
    report_.notes.push_back(fmt::format("{}: {}", newest_.file, newest_.text));
    if (!older_.empty()) {
      report_.notes.push_back(
          fmt::format("the newest of {} reports of RAS is judged; older ones show what changed", older_.size() + 1));
    }
    if (findings_.empty()) {
      report_.notes.emplace_back(
          "RAS counts launches: no rank that answers is behind for certain, but a transfer that hangs shows in no "
          "count");
    }
  }

  std::span<const RasReportView> older_;
  const RasReportView& newest_;
  Report& report_;
  std::map<CommHash, LaunchDifference> differences_;
  struct Crossed {
    const RasComm* comm;
    const RasComm* ahead_in;
    int32_t rank;  // on `comm`
  };
  std::vector<Crossed> crossed_;
  std::vector<Finding> findings_;
  size_t notes_ = 0;
};

}  // namespace

Status add_launches(EventSource& source, Report& report) {
  ST_ASSIGN(const std::vector<RasReportView> reports, read_ras_reports(source));
  if (reports.empty()) {
    return {};
  }
  Judge(reports, report).judge();
  if (report.nodes == 0) {
    std::set<std::string> hosts;
    for (const auto& [hash, comm] : reports.back().comms) {
      for (const auto& [number, rank] : comm.ranks) {
        hosts.insert(rank.host);
      }
    }
    hosts.erase("");
    report.nodes = std::ssize(hosts);
    report.range = {reports.front().time_ns, reports.back().time_ns};
    report.judged_range = report.range;
  }
  report.ends_unknown = true;
  report.healthy = report.findings.empty();
  return {};
}

}  // namespace stalltrace::analysis
