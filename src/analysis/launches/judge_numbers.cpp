// SPDX-License-Identifier: Apache-2.0
// Launch counts of RAS's reports: which ranks are behind or launched another operation, and whether they stand still.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "analysis/advice.h"
#include "analysis/launches/compare_launches.h"
#include "analysis/launches/judge_parts.h"
#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/order.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostNotes = 8;

/// Whether ranks that are behind launched anything since the report before the newest.
struct Standing {
  enum class What : uint8_t { kNotKnown, kStandsStill, kRuns };
  What what = What::kNotKnown;
  const RasReportView* since = nullptr;  // the oldest report with the same numbers

  [[nodiscard]] bool stands_still() const { return what == What::kStandsStill; }
};

class NumberJudge {
 public:
  NumberJudge(std::span<const RasReportView> reports, LaunchVerdicts& verdicts)
      : older_(reports.first(reports.size() - 1)), newest_(reports.back()), verdicts_(verdicts) {}

  void judge() {
    for (const auto& [hash, comm] : newest_.comms) {
      if (const auto difference = compare_launches(comm)) {
        differences_.emplace(hash, *difference);
      }
    }
    for (const auto& [hash, difference] : differences_) {
      judge_difference(newest_.comms.at(hash), difference);
    }
    judge_crossed();
  }

 private:
  void note(const RasComm& comm, std::string_view text) {
    if (++notes_ <= kMostNotes) {
      verdicts_.notes.push_back(fmt::format("communicator {} of {} in {}: {}", format_hash(comm.hash),
                                            count_of(comm.nranks, "rank"),
                                            newest_.from_memory ? newest_.file : "RAS's report", text));
    }
  }

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

  /// The report names the smaller side: those that are ahead.
  [[nodiscard]] std::string unnamed_text(const RasComm& comm, const LaunchDifference& difference) const {
    const LaunchGap& gap = difference.gaps.front();
    const std::string numbers = fmt::format("they launched {}, the others {}", launches_text(gap.behind, gap.operation),
                                            launches_text(gap.next, gap.operation));
    const std::string who =
        difference.unnamed_away == 1 ? "1 rank is behind" : fmt::format("{} ranks are behind", difference.unnamed_away);
    return std::ssize(difference.named_came) != difference.came
               ? fmt::format("{}, which RAS does not name ({}): ask for JSON or for \"verbose status\"", who, numbers)
               : fmt::format("{} ({}): all but {}; one report does not show that the job stands still", who, numbers,
                             names_of(newest_, comm, difference.named_came));
  }

  void judge_difference(const RasComm& comm, const LaunchDifference& difference) {
    if (comm.leaving) {
      return note(comm, "its ranks are taking it down: numbers of launches are not judged");
    }
    if (comm.missing() > 0 || comm.unnamed_missing > 0) {
      return note(comm, "its ranks launched different numbers of calls, and one does not answer, which may be why");
    }
    if (difference.diverged) {
      return add_mismatch(comm, difference);
    }
    if (difference.unnamed_away > 0 || difference.away.empty()) {
      return note(comm, unnamed_text(comm, difference));
    }
    const int64_t away = std::ssize(difference.away);
    const bool minority = away < difference.came || (away == 1 && difference.came == 1);
    const std::string behind =
        fmt::format("{} behind {}", names_of(newest_, comm, difference.away), count_of(difference.came, "other rank"));
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

  /// Ranks that are behind on one communicator and ahead on another, and no other rank to blame: each may wait for the
  /// other.
  void judge_crossed() {
    const bool blamed = std::ranges::any_of(
        verdicts_.findings, [](const Finding& finding) { return finding.cause == Cause::kMissingCollective; });
    if (crossed_.size() < 2 || blamed) {
      return;
    }
    Finding finding = finding_of(newest_, Cause::kMismatchedCollective, Severity::kWaiting, kOrderAloneConfidence);
    finding.comm_id_hash = crossed_.front().comm->hash;
    finding.op = launched_operation(differences_.at(finding.comm_id_hash).gaps.front().operation);
    finding.collectives_affected = std::ssize(crossed_);
    for (size_t i = 0; i < std::min(crossed_.size(), kLinesListed); ++i) {
      const Crossed& one = crossed_[i];
      finding.evidence.push_back({"log_line",
                                  1,
                                  fmt::format("{}: {} is behind on communicator {} and ahead on {}", newest_.file,
                                              rank_text(newest_, *one.comm, one.comm->ranks.at(one.rank)),
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
    verdicts_.findings.push_back(std::move(finding));
  }

  void add_missing(const RasComm& comm, const LaunchDifference& difference, const Standing& standing, bool minority) {
    const int64_t still_ns = standing.since != nullptr && standing.since->timed && newest_.timed
                                 ? newest_.time_ns - standing.since->time_ns
                                 : 0;
    const bool proven = standing.stands_still() && still_ns >= kSilentNs;
    Finding finding = finding_of(newest_, Cause::kMissingCollective,
                                 proven && still_ns >= kLongWaitNs ? Severity::kCritical : Severity::kWaiting,
                                 proven ? kStandingStillConfidence : kOrderAloneConfidence);
    const std::set<int32_t>& few = minority ? difference.away : difference.named_came;
    set_culprit(comm, few, finding);
    finding.comm_id_hash = comm.hash;
    finding.op = launched_operation(difference.gaps.front().operation);
    finding.collectives_affected = 1;
    finding.stall_ms = static_cast<double>(still_ns) / static_cast<double>(kNsPerMs);
    finding.window.from_ns -= still_ns;
    finding.summary = summary(comm, difference, standing, still_ns, minority);
    for (const LaunchGap& gap : difference.gaps) {
      finding.evidence.push_back(
          {"log_line",
           difference.came,
           fmt::format("{}: {} launched by {}, {} by {}", newest_.file, launches_text(gap.behind, gap.operation),
                       names_of(newest_, comm, difference.away), numbers_text(gap),
                       count_of(difference.came, "other rank")),
           {}});
    }
    if (standing.stands_still()) {
      finding.evidence.push_back({"log_line", 1, fmt::format("{}: the same numbers", standing.since->file), {}});
    }
    finding.evidence.push_back(
        {"log_line",
         0,
         fmt::format("{} counts launches: whether the call before has ended is not known", newest_.counted_by()),
         {}});
    finding.remedy = look_at_absent(few.empty() ? "each rank" : names_of(newest_, comm, few));
    finding.remedy += standing.stands_still() ? "" : kAskAgain;
    const auto same = std::ranges::find_if(verdicts_.findings, [&](const Finding& one) {
      return one.cause == finding.cause && one.culprit && finding.culprit && finding.culprit->pid != 0 &&
             one.culprit->node == finding.culprit->node && one.culprit->pid == finding.culprit->pid;
    });
    if (same != verdicts_.findings.end()) {  // on another communicator
      ++same->collectives_affected;
      same->evidence.push_back({"log_line", 1, finding.summary, {}});
      return;
    }
    verdicts_.findings.push_back(std::move(finding));
  }

  void set_culprit(const RasComm& comm, const std::set<int32_t>& few, Finding& finding) const {
    if (few.size() == 1) {
      finding.culprit = culprit_of(newest_, comm, comm.ranks.at(*few.begin()));
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
      text = fmt::format("{} launched only {}, {} {}", names_of(newest_, comm, away),
                         launches_text(gap.behind, gap.operation), count_of(difference.came, "other rank"),
                         numbers_text(gap));
    } else {
      text = fmt::format("{} launched {}, {} only {}",
                         difference.named_came.empty() ? count_of(difference.came, "rank")
                                                       : names_of(newest_, comm, difference.named_came),
                         numbers_text(gap), count_of(std::ssize(away), "other rank"), gap.behind);
    }
    if (!standing.stands_still()) {
      return capitalised(text) + "; if the job hangs, look there first (one report of a job that runs looks the same).";
    }
    return capitalised(text) + (still_ns > 0 ? fmt::format("; that did not change for {}.", format_duration(still_ns))
                                             : "; that did not change between two reports.");
  }

  void add_mismatch(const RasComm& comm, const LaunchDifference& difference) {
    Finding finding = finding_of(newest_, Cause::kMismatchedCollective, Severity::kHigh, kOrderAloneConfidence);
    finding.comm_id_hash = comm.hash;
    finding.op = launched_operation(difference.gaps.front().operation);
    finding.collectives_affected = 1;
    if (difference.odd) {
      finding.culprit = culprit_of(newest_, comm, comm.ranks.at(*difference.odd));
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
                         names_of(newest_, comm, {ranks.begin(), ranks.end()})),
             {}});
        if (finding.evidence.size() > kLinesListed) {
          break;
        }
      }
    }
    finding.summary = fmt::format(
        "{} launched different operations on one communicator ({}): one has more of one, another more of another.",
        difference.odd
            ? fmt::format("{} and the other {}", capitalised(rank_text(newest_, comm, comm.ranks.at(*difference.odd))),
                          count_of(comm.nranks - 1, "rank"))
            : "Ranks",
        fmt::join(operations, ", "));
    finding.remedy =
        "compare the code of these ranks: a collective that one rank called in place of another, or in another order";
    verdicts_.findings.push_back(std::move(finding));
  }

  struct Crossed {
    const RasComm* comm;
    const RasComm* ahead_in;
    int32_t rank;  // on `comm`
  };

  std::span<const RasReportView> older_;
  const RasReportView& newest_;
  LaunchVerdicts& verdicts_;
  std::map<CommHash, LaunchDifference> differences_;
  std::vector<Crossed> crossed_;
  size_t notes_ = 0;
};

}  // namespace

void judge_numbers(std::span<const RasReportView> reports, LaunchVerdicts& verdicts) {
  NumberJudge(reports, verdicts).judge();
}

}  // namespace stalltrace::analysis
