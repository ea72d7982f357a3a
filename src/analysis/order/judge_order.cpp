// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/judge_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/order/missing_call.h"
#include "analysis/order/order_difference.h"
#include "analysis/order/order_mismatch.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"
#include "model/operation.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostOrderNotes = 8;  // on communicators

class CommJudge {
 public:
  CommJudge(const OrderEvidence& evidence, const CommOrder& comm,
            const std::set<std::pair<CommHash, int32_t>>& recorded, OrderVerdicts& out)
      : evidence_(evidence), comm_(comm), recorded_(recorded), out_(out) {}

  void judge() {
    OrderMembers members;
    OrderMembers silent;
    for (const CallOrder& member : comm_.members) {
      (member.calls.empty() ? silent : members).push_back(&member);
    }
    if (!silent.empty() && !members.empty()) {
      return note(
          fmt::format("the log of {} shows no call on it that can be lined up: whether another one is behind "
                      "is not known",
                      evidence_.names_of(silent)));
    }
    if (members.size() < 2 || two_of_one_rank(members)) {
      return;
    }
    Mismatched mismatch = find_mismatch(evidence_, comm_, members);
    if (!mismatch.misaligned.empty()) {
      return note(
          fmt::format("their calls differ from the first one on ({}): either ranks entered different calls, or "
                      "the numbers of calls are not comparable here",
                      mismatch.misaligned));
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

  bool two_of_one_rank(const OrderMembers& members) {
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

  /// The highest call that any rank ended and that needs all ranks: every rank has begun it.
  static int64_t ended_by_any_rank(const OrderMembers& members) {
    int64_t number = -1;
    for (const CallOrder* member : members) {
      for (const LoggedCall& call : member->calls) {
        if (call.ended && synchronises(call.signature.op)) {
          number = std::max(number, call.number);
        }
      }
    }
    return number;
  }

  void judge_ends(const OrderMembers& all) {
    const int64_t ended = ended_by_any_rank(all);
    OrderMembers members;
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
    OrderMembers away;
    OrderMembers came;
    for (const CallOrder* member : members) {
      (member->last() == last ? away : came).push_back(member);
    }
    if (came.empty()) {
      return note_same_last(away);
    }
    judge_difference(std::move(away), std::move(came), front - last);
  }

  void note_same_last(const OrderMembers& members) {
    const LoggedCall& call = members.front()->calls.back();
    const bool open = std::ranges::any_of(members, [](const CallOrder* one) { return one->calls.back().open; });
    const bool ended = std::ranges::any_of(members, [](const CallOrder* one) { return one->calls.back().ended; });
    const bool all_open = std::ranges::all_of(members, [](const CallOrder* one) { return one->calls.back().open; });
    if (all_open && add_without_dump(members, call)) {
      return;
    }
    note(fmt::format("{} began {} last, none is behind{}", evidence_.names_of(members), call_name(call),
                     open && !ended ? "; it had not ended: if it never does, look at its transfer" : ""));
  }

  /// All ranks that left a dump are inside one call, and a few ranks left none. False: it is not so.
  bool add_without_dump(const OrderMembers& members, const LoggedCall& call) {
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
    const std::string who = evidence_.names_of(members);
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

  void judge_difference(OrderMembers away, OrderMembers came, int64_t ahead) {
    const OrderDifference difference{evidence_, comm_, std::move(away), std::move(came)};
    OrderProof proof;
    if (const std::string why = why_not_missing(difference, recorded_, ahead, proof); !why.empty()) {
      return note(fmt::format("the log of {} ends with {}, {} behind {}: {}", evidence_.names_of(difference.away),
                              call_name(difference.before()), count_of(ahead, "call"),
                              evidence_.names_of(difference.came), why));
    }
    out_.findings.push_back(missing_call(difference, proof));
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
