// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/judge_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/advice.h"
#include "analysis/order/order_mismatch.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/order.h"
#include "analysis/thresholds/timeline.h"
#include "base/text.h"
#include "model/events/imported/torch_report.h"
#include "model/events/imported/watchdog_report.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostOrderNotes = 8;                  // on communicators
constexpr int64_t kLongestPauseNs = int64_t{1} << 53;  // 104 days: times of a hostile file must not overflow

using Members = std::vector<const CallOrder*>;

/// "rank 3", "ranks 0 to 6", "3 processes"
std::string names_of(const OrderEvidence& evidence, const Members& members) {
  std::vector<int32_t> ranks;
  for (const CallOrder* member : members) {
    const std::optional<int32_t> rank = evidence.rank_of(*member);
    if (!rank) {
      return members.size() == 1 ? evidence.describe(*member) : fmt::format("{} processes", members.size());
    }
    ranks.push_back(*rank);
  }
  return ranks_text(std::move(ranks));
}

bool needs_all_ranks(Operation op) {
  return op == Operation::kAllReduce || op == Operation::kAllGather || op == Operation::kReduceScatter ||
         op == Operation::kAllToAll || op == Operation::kBarrier;
}

/// Whether a watchdog's line names this operation: PyTorch has other names for them ("_ALLGATHER_BASE"). A line that
/// names none, or a Send or Recv, is about any communicator.
bool names_operation(std::string_view text, Operation op) {
  const auto report = read_watchdog_report(text);
  if (!report || report->op.empty()) {
    return false;
  }
  const Operation named = operation_of_torch(report->op);
  return (named == Operation::kBarrier ? Operation::kAllReduce : named) == op;  // a barrier is an AllReduce of NCCL's
}

/// What separates a rank that is missing from a log that ends early.
struct Proof {
  const Timeout* timeout = nullptr;  // a watchdog reported the call
  bool left = false;                 // the missing ranks destroyed the communicator
  bool silent = false;               // their logs go on without the call
  bool outside = false;              // the call before has ended
  int64_t begin_ns = 0;              // when the last of the others began the missing call
  int64_t waited_ns = 0;             // from then on to the last that is known
  int64_t longest_pause_ns = 0;      // of the others between two calls before
  [[nodiscard]] bool any() const { return timeout != nullptr || left || silent; }
};

class CommJudge {
 public:
  CommJudge(const OrderEvidence& evidence, const CommOrder& comm,
            const std::set<std::pair<CommHash, int32_t>>& recorded, OrderVerdicts& out)
      : evidence_(evidence), comm_(comm), recorded_(recorded), out_(out) {}

  void judge() {
    Members members;
    Members silent;
    for (const CallOrder& member : comm_.members) {
      (member.calls.empty() ? silent : members).push_back(&member);
    }
    if (!silent.empty() && !members.empty()) {
      return note(
          fmt::format("the log of {} shows no call on it that can be lined up: whether another one is behind "
                      "is not known",
                      names_of(evidence_, silent)));
    }
    if (members.size() < 2 || two_of_one_rank(members)) {
      return;
    }
    Mismatched mismatch = find_mismatch(evidence_, comm_, members);
    if (mismatch.misaligned) {
      return note("their calls do not fit together from the first one on: numbers of calls are not comparable here");
    }
    if (mismatch.finding) {
      out_.findings.push_back(std::move(*mismatch.finding));
      return;
    }
    judge_ends(members);
  }

 private:
  void note(std::string_view text) {
    if (out_.notes.size() < kMostOrderNotes) {
      out_.notes.push_back(
          fmt::format("communicator {} of {}: {}", format_hash(comm_.hash), count_of(comm_.nranks, "rank"), text));
    }
  }

  bool two_of_one_rank(const Members& members) {
    std::set<int32_t> seen;
    for (const CallOrder* member : members) {
      if (member->rank && !seen.insert(*member->rank).second) {
        note(fmt::format("two processes are rank {}: not judged", *member->rank));
        return true;
      }
    }
    if (comm_.nranks > 0 && members.size() > static_cast<size_t>(comm_.nranks)) {
      note("more processes have it than it has ranks: not judged");
      return true;
    }
    return false;
  }

  [[nodiscard]] const ProcessLog& log_of(const CallOrder& member) const {
    return evidence_.processes.at(member.process);
  }

  /// The highest call that any rank ended and that needs all ranks: every rank has begun it.
  static int64_t ended_by_any_rank(const Members& members) {
    int64_t number = -1;
    for (const CallOrder* member : members) {
      for (const LoggedCall& call : member->calls) {
        if (call.ended && needs_all_ranks(call.signature.op)) {
          number = std::max(number, call.number);
        }
      }
    }
    return number;
  }

  void judge_ends(const Members& all) {
    const int64_t ended = ended_by_any_rank(all);
    Members members;
    for (const CallOrder* member : all) {
      if (member->last() >= ended) {
        members.push_back(member);
      } else {
        return note(
            fmt::format("{} is shown only until {}, but a later call ended elsewhere, so that it was in that one "
                        "too: logs and dumps of different moments can't be compared",
                        evidence_.short_name(*member), call_name(member->calls.back())));
      }
    }
    const auto by_last = [](const CallOrder* a, const CallOrder* b) { return a->last() < b->last(); };
    if (members.size() < 2) {
      return;
    }
    const int64_t last = (*std::ranges::min_element(members, by_last))->last();
    const int64_t front = (*std::ranges::max_element(members, by_last))->last();
    Members away;
    Members came;
    for (const CallOrder* member : members) {
      (member->last() == last ? away : came).push_back(member);
    }
    if (came.empty()) {
      return note_same_last(away);
    }
    judge_difference(away, came, front - last);
  }

  void note_same_last(const Members& members) {
    const LoggedCall& call = members.front()->calls.back();
    const bool open = std::ranges::any_of(members, [](const CallOrder* one) { return one->calls.back().open; });
    const bool ended = std::ranges::any_of(members, [](const CallOrder* one) { return one->calls.back().ended; });
    const bool all_open = std::ranges::all_of(members, [](const CallOrder* one) { return one->calls.back().open; });
    if (all_open && add_without_dump(members, call)) {
      return;
    }
    note(fmt::format("{} began {} last, none is behind{}", names_of(evidence_, members), call_name(call),
                     open && !ended ? "; it had not ended: if it never does, look at its transfer" : ""));
  }

  /// All ranks that left a dump are inside one call, and a few ranks left none. False: it is not so.
  bool add_without_dump(const Members& members, const LoggedCall& call) {
    std::set<int32_t> shown;
    for (const CallOrder* member : members) {
      if (!member->rank) {
        return false;
      }
      shown.insert(*member->rank);
    }
    const MissingRanks missing(shown, comm_.nranks);
    const bool by_job =
        std::ranges::all_of(members, [&](const CallOrder* one) { return evidence_.rank_of(*one) == one->rank; });
    if (missing.empty() || missing.count() >= std::ssize(members) || !comm_.named || !by_job) {
      return false;
    }
    const std::string who = names_of(evidence_, members);
    Finding finding{.cause = Cause::kUnknown, .severity = Severity::kWaiting, .confidence = kSomeRanksConfidence};
    finding.comm_id_hash = comm_.hash;
    finding.op = call.signature.op;
    finding.collectives_affected = 1;
    finding.window = {call.time_ns, call.time_ns};
    finding.summary = fmt::format("{} began {}, and it ended on none of them; there is no dump of {}.", who,
                                  call_name(call), missing.text());
    finding.summary[0] = 'R';
    finding.evidence.push_back(
        {"collective", std::ssize(members), fmt::format("{} is open: {}", call_name(call), who), {call.event}});
    finding.evidence.push_back({"communicator",
                                missing.count(),
                                fmt::format("a rank that died writes no dump, and one whose dump was not given looks "
                                            "the same: what {} did is not known",
                                            missing.text()),
                                {}});
    if (const std::string location = evidence_.location_of(call); !location.empty()) {
      finding.evidence.push_back({"stack", 1, fmt::format("{} was called in {}", call_name(call), location), {}});
    }
    finding.remedy =
        fmt::format("give the dump of {}; if there is none, see why that process ended (its log; dmesg on its host)",
                    missing.text());
    out_.findings.push_back(std::move(finding));
    return true;
  }

  void judge_difference(const Members& away, const Members& came, int64_t ahead) {
    const LoggedCall& before = away.front()->calls.back();
    const std::string behind = fmt::format("the log of {} ends with {}, {} behind {}", names_of(evidence_, away),
                                           call_name(before), count_of(ahead, "call"), names_of(evidence_, came));
    const auto decline = [&](std::string_view why) { note(fmt::format("{}: {}", behind, why)); };
    if (ahead > kMostCallsAhead) {
      return decline("the others did not wait, so that its end is missing");
    }
    if (std::ranges::any_of(away, [&](const CallOrder* one) { return log_of(*one).cut; })) {
      return decline("its last lines are damaged or cut off, so that what came after is not known");
    }
    if (std::ranges::any_of(came, [](const CallOrder* one) { return one->left; })) {
      return decline("others ended in good order, so that lines are missing");
    }
    if (std::ranges::any_of(away, [&](const CallOrder* one) {
          return one->rank && recorded_.contains({comm_.hash, *one->rank});
        })) {
      return decline("a recording shows that rank, and is judged instead");
    }
    if (std::ranges::any_of(away, [&](const CallOrder* one) { return reported_timeout(*one); })) {
      return decline("its own watchdog reported a call that did not end, so that it waits as well");
    }
    Proof proof = proof_of(away, came);
    if (!proof.left) {
      if (const std::string where = waits_elsewhere(away); !where.empty()) {
        return decline(where);
      }
    }
    if (before.open && ended_anywhere(came, before.number)) {
      return decline("it had not ended that call, others had: its dump was made earlier");
    }
    if (inside_before(away, came, before.number)) {
      return decline(
          fmt::format("all have begun {} and it ended nowhere: its transfer holds the job up, not a rank "
                      "that is missing",
                      call_name(before)));
    }
    const bool one_away = away.size() == 1;
    const bool minority = away.size() < came.size() || (one_away && came.size() == 1);
    if (!proof.any()) {
      if (!minority) {
        return decline("nothing shows that the job stood still");
      }
      // Dumps are written when a call has timed out, logs end anywhere.
      if (evidence_.timed && proof.longest_pause_ns > 0 && !(evidence_.ends_known && proof.outside)) {
        return decline("nothing shows that the job stood still: the log may have been cut there");
      }
      const auto last_of = [](const CallOrder* one) { return one->last(); };
      const bool uniform = std::ranges::count(came, came.front()->last(), last_of) == std::ssize(came);
      const bool whole = std::ranges::none_of(came, [&](const CallOrder* one) { return log_of(*one).cut; });
      const bool stood = evidence_.ends_known && proof.outside && none_ended_behind(came, before.number);
      if (!stood && (!uniform || !whole || ahead > kMostUnprovenCallsAhead)) {
        return decline("logs that were cut while the job ran look the same");
      }
    }
    add_finding(away, came, proof, minority);
  }

  /// True if a dump shows all calls after `number` open: a job that runs would have ended some of them, while one whose
  /// CPU goes on without waiting launches many calls that can't end without the rank that is missing.
  static bool none_ended_behind(const Members& came, int64_t number) {
    return std::ranges::all_of(came, [&](const CallOrder* member) {
      return std::ranges::all_of(member->calls,
                                 [&](const LoggedCall& call) { return call.number <= number || call.open; });
    });
  }

  [[nodiscard]] bool reported_timeout(const CallOrder& member) const {
    const std::optional<int32_t> rank = evidence_.rank_of(member);
    return rank && std::ranges::find(evidence_.timeouts, rank, &Timeout::rank) != evidence_.timeouts.end();
  }

  Proof proof_of(const Members& away, const Members& came) const {
    Proof proof;
    const int64_t next = away.front()->last() + 1;
    const LoggedCall* missing = nullptr;
    int64_t silent_ns = std::numeric_limits<int64_t>::max();  // by each rank's own clock
    int64_t until_ns = 0;
    for (const CallOrder* member : came) {
      const auto call = std::ranges::lower_bound(member->calls, next, {}, &LoggedCall::number);
      missing = &*call;
      proof.begin_ns = std::max(proof.begin_ns, call->time_ns);
      for (auto later = member->calls.begin() + 1; later < call; ++later) {
        proof.longest_pause_ns = std::max(proof.longest_pause_ns, later->time_ns - (later - 1)->time_ns);
      }
      until_ns = std::max(until_ns, log_of(*member).last_ns);
    }
    for (const CallOrder* member : away) {
      silent_ns = std::min(silent_ns, log_of(*member).last_ns - member->calls.back().time_ns);
      until_ns = std::max(until_ns, log_of(*member).last_ns);
    }
    proof.longest_pause_ns = std::min(proof.longest_pause_ns, kLongestPauseNs);
    proof.left = std::ranges::all_of(away, &CallOrder::left);
    proof.outside = std::ranges::all_of(away, [](const CallOrder* one) { return one->calls.back().ended; });
    for (const Timeout& timeout : evidence_.timeouts) {
      if (is_of(timeout, came) && names_operation(timeout.text, missing->signature.op) &&
          (!evidence_.timed || timeout.time_ns >= proof.begin_ns - kClocksApartNs)) {
        proof.timeout = &timeout;
        until_ns = std::max(until_ns, timeout.time_ns);
      }
    }
    if (evidence_.timed) {
      const int64_t limit_ns = std::max(kSilentNs, kLongestPauses * proof.longest_pause_ns);
      // The time of a dump's last line is its file's, which copying changes.
      proof.silent = silent_ns >= limit_ns && !evidence_.ends_known;
      // A dump's last line is its file's time, which copying changes; clocks of hosts differ.
      proof.waited_ns = evidence_.ends_known       ? evidence_.last_call_ns - proof.begin_ns
                        : proof.timeout != nullptr ? until_ns - proof.begin_ns
                                                   : silent_ns;
      proof.waited_ns = std::max<int64_t>(proof.waited_ns, 0);
    }
    return proof;
  }

  /// True if one of these ranks, and no process of another job that has its number, reported the timeout.
  [[nodiscard]] bool is_of(const Timeout& timeout, const Members& members) const {
    const auto has_rank = [&](const CallOrder* member) { return evidence_.rank_of(*member) == timeout.rank; };
    const auto processes = std::ranges::count_if(evidence_.processes,
                                                 [&](const auto& entry) { return entry.second.rank == timeout.rank; });
    return timeout.rank && processes == 1 && std::ranges::any_of(members, has_rank);
  }

  /// A rank that made later calls elsewhere may wait there itself, or is in its job's next life. Empty: none did.
  std::string waits_elsewhere(const Members& away) const {
    for (const CallOrder* member : away) {
      const ProcessLog& log = log_of(*member);
      if (log.newest_call <= member->newest && !log.newest_is_pair) {
        continue;
      }
      if (log.threads_as_ranks > 1) {
        continue;  // its calls are those of several ranks
      }
      if (log.newest_is_pair) {
        return "its newest call is a Send or Recv, in which it may wait for another rank";
      }
      return fmt::format("its newest call is on communicator {}, in which it may wait for another rank",
                         format_hash(log.newest_hash));
    }
    return "";
  }

  static bool ended_anywhere(const Members& members, int64_t number) {
    return std::ranges::any_of(members, [&](const CallOrder* member) {
      const LoggedCall* call = member->call_at(number);
      return call != nullptr && call->ended;
    });
  }

  /// True if the call before is known to have ended nowhere although it was begun.
  static bool inside_before(const Members& away, const Members& came, int64_t number) {
    bool open = false;
    for (const Members* members : {&away, &came}) {
      for (const CallOrder* member : *members) {
        const LoggedCall* call = member->call_at(number);
        if (call != nullptr && call->ended) {
          return false;
        }
        open = open || (call != nullptr && call->open);
      }
    }
    return open;
  }

  [[nodiscard]] double confidence_of(const Proof& proof) const {
    if (proof.left) {
      return kLeftConfidence;
    }
    if (!proof.any() && evidence_.ends_known) {
      return kSomeRanksConfidence;
    }
    const bool all_shown = comm_.nranks > 0 && std::ssize(comm_.members) >= comm_.nranks && comm_.named;
    if (!all_shown) {
      return kSomeRanksConfidence;
    }
    if (!proof.any()) {
      return kOrderAloneConfidence;
    }
    // Dumps of a job that runs, made a moment apart, show a rank outside as well.
    const bool waited = proof.timeout != nullptr || proof.waited_ns >= kSilentNs;
    return proof.outside && waited ? kOutsideConfidence : kStandingStillConfidence;
  }

  static Severity severity_of(const Proof& proof) {
    const bool long_wait =
        proof.silent && proof.waited_ns >= std::max(kLongWaitNs, kLongestWaits * proof.longest_pause_ns);
    return proof.left || proof.timeout != nullptr || long_wait ? Severity::kCritical : Severity::kWaiting;
  }

  void add_finding(const Members& away, const Members& came, const Proof& proof, bool minority) {
    const LoggedCall& before = away.front()->calls.back();
    const LoggedCall& missing =
        *std::ranges::lower_bound(came.front()->calls, before.number + 1, {}, &LoggedCall::number);
    const CallOrder* culprit = minority && away.size() == 1    ? away.front()
                               : !minority && came.size() == 1 ? came.front()
                                                               : nullptr;
    Finding finding{.cause = Cause::kMissingCollective, .severity = severity_of(proof)};
    finding.confidence = confidence_of(proof);
    if (culprit != nullptr) {
      finding.culprit = evidence_.culprit(*culprit);
    }
    finding.comm_id_hash = comm_.named ? comm_.hash : 0;
    finding.op = missing.signature.op;
    finding.collectives_affected = 1;
    finding.stall_ms = static_cast<double>(proof.waited_ns) / static_cast<double>(kNsPerMs);
    finding.window = {proof.begin_ns, proof.begin_ns + proof.waited_ns};
    finding.summary = summary(away, came, proof, minority, missing, before);
    describe(away, came, proof, missing, before, finding);
    finding.remedy = remedy(culprit, minority);
    out_.findings.push_back(std::move(finding));
  }

  [[nodiscard]] std::string summary(const Members& away, const Members& came, const Proof& proof, bool minority,
                                    const LoggedCall& missing, const LoggedCall& before) const {
    const std::string others = names_of(evidence_, came);
    const std::string who = away.size() == 1 ? evidence_.describe(*away.front()) : names_of(evidence_, away);
    std::string text;
    if (!minority) {
      text = fmt::format("{} began {}, the others ({}) did not",
                         came.size() == 1 ? evidence_.describe(*came.front()) : others, call_name(missing),
                         names_of(evidence_, away));
    } else if (proof.left) {
      text = fmt::format("{} destroyed its communicator after {}, but {} began {}", who, call_name(before), others,
                         call_name(missing));
    } else {
      text = fmt::format("{} did not begin {}, which {} began: {} last call is {}", who, call_name(missing), others,
                         away.size() == 1 ? "its" : "their", call_name(before));
    }
    text[0] = static_cast<char>(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0]);
    if (proof.timeout != nullptr) {
      return text + "; a watchdog reported that the call did not end.";
    }
    if (proof.left) {
      return text + ".";
    }
    if (proof.waited_ns >= kSilentNs && proof.silent) {
      return fmt::format("{}; nothing followed for {}.", text, format_duration(proof.waited_ns));
    }
    return text + (evidence_.ends_known
                       ? "; if the job hangs, look there first (dumps made at different moments look the same)."
                       : "; if the job hangs, look there first (a log that was cut while the job ran looks the same).");
  }

  void describe(const Members& away, const Members& came, const Proof& proof, const LoggedCall& missing,
                const LoggedCall& before, Finding& finding) const {
    const auto add = [&](std::string kind, int64_t count, std::string text, std::vector<EventId> events = {}) {
      finding.evidence.push_back({std::move(kind), count, std::move(text), std::move(events)});
    };
    add("collective", std::ssize(came), fmt::format("began {}: {}", call_name(missing), names_of(evidence_, came)),
        {missing.event});
    add("collective", std::ssize(away), fmt::format("last call {}: {}", call_name(before), names_of(evidence_, away)),
        {before.event});
    for (const LoggedCall* call : {&missing, &before}) {
      if (const std::string location = evidence_.location_of(*call); !location.empty()) {
        add("stack", 1, fmt::format("{} was called in {}", call_name(*call), location));
      }
    }
    if (proof.timeout != nullptr) {
      add("log_line", 1, proof.timeout->text.substr(0, 240));
    }
    if (std::ssize(comm_.members) < comm_.nranks) {
      add("communicator", std::ssize(comm_.members),
          fmt::format("{} of its {} ranks are shown: another one may be further behind", comm_.members.size(),
                      comm_.nranks));
    }
    if (!comm_.named) {
      add("communicator", std::ssize(comm_.members),
          "no set-up line names the communicator: those with as many ranks were taken for one");
    }
    if (!proof.left && !proof.outside) {
      add("collective", 0,
          fmt::format("no end of {} is known: {} may be outside of all calls, or still wait inside it",
                      call_name(before), names_of(evidence_, away)));
    }
  }

  [[nodiscard]] std::string remedy(const CallOrder* culprit, bool minority) const {
    if (culprit == nullptr || !minority) {
      return std::string(kLookForUnevenCalls);
    }
    return look_at_absent(evidence_.describe(*culprit));
  }

  const OrderEvidence& evidence_;
  const CommOrder& comm_;
  const std::set<std::pair<CommHash, int32_t>>& recorded_;
  OrderVerdicts& out_;
};

}  // namespace

OrderVerdicts judge_order(const OrderEvidence& evidence, const std::set<std::pair<CommHash, int32_t>>& recorded) {
  OrderVerdicts out;
  for (const CommOrder& comm : evidence.comms) {
    CommJudge(evidence, comm, recorded, out).judge();
  }
  return out;
}

}  // namespace stalltrace::analysis
