// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/order_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/order.h"
#include "analysis/thresholds/timeline.h"
#include "base/text.h"
#include "model/events/imported/torch_report.h"
#include "model/events/imported/watchdog_report.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kLongestPauseNs = int64_t{1} << 53;  // 104 days: times of a hostile file must not overflow

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

const ProcessLog& log_of(const OrderEvidence& evidence, const CallOrder& member) {
  return evidence.processes.at(member.process);
}

/// True if a dump shows all calls after `number` open: a job that runs would have ended some of them, while one whose
/// CPU goes on without waiting launches many calls that can't end without the rank that is missing.
bool none_ended_behind(const OrderMembers& came, int64_t number) {
  return std::ranges::all_of(came, [&](const CallOrder* member) {
    return std::ranges::all_of(member->calls,
                               [&](const LoggedCall& call) { return call.number <= number || call.open; });
  });
}

bool reported_timeout(const OrderEvidence& evidence, const CallOrder& member) {
  const std::optional<int32_t> rank = evidence.rank_of(member);
  return rank && std::ranges::find(evidence.timeouts, rank, &Timeout::rank) != evidence.timeouts.end();
}

/// True if one of these ranks, and no process of another job that has its number, reported the timeout.
bool is_of(const OrderEvidence& evidence, const Timeout& timeout, const OrderMembers& members) {
  const auto has_rank = [&](const CallOrder* member) { return evidence.rank_of(*member) == timeout.rank; };
  const auto processes =
      std::ranges::count_if(evidence.processes, [&](const auto& entry) { return entry.second.rank == timeout.rank; });
  return timeout.rank && processes == 1 && std::ranges::any_of(members, has_rank);
}

OrderProof proof_of(const OrderDifference& difference) {
  const OrderEvidence& evidence = difference.evidence;
  const OrderMembers& away = difference.away;
  const OrderMembers& came = difference.came;
  OrderProof proof;
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
    until_ns = std::max(until_ns, log_of(evidence, *member).last_ns);
  }
  for (const CallOrder* member : away) {
    silent_ns = std::min(silent_ns, log_of(evidence, *member).last_ns - member->calls.back().time_ns);
    until_ns = std::max(until_ns, log_of(evidence, *member).last_ns);
  }
  proof.longest_pause_ns = std::min(proof.longest_pause_ns, kLongestPauseNs);
  proof.left = std::ranges::all_of(away, &CallOrder::left);
  proof.outside = std::ranges::all_of(away, [](const CallOrder* one) { return one->calls.back().ended; });
  for (const Timeout& timeout : evidence.timeouts) {
    if (is_of(evidence, timeout, came) && names_operation(timeout.text, missing->signature.op) &&
        (!evidence.timed || timeout.time_ns >= proof.begin_ns - kClocksApartNs)) {
      proof.timeout = &timeout;
      until_ns = std::max(until_ns, timeout.time_ns);
    }
  }
  if (evidence.timed) {
    const int64_t limit_ns = std::max(kSilentNs, kLongestPauses * proof.longest_pause_ns);
    // The time of a dump's last line is its file's, which copying changes.
    proof.silent = silent_ns >= limit_ns && !evidence.ends_known;
    // A dump's last line is its file's time, which copying changes; clocks of hosts differ.
    proof.waited_ns = evidence.ends_known        ? evidence.last_call_ns - proof.begin_ns
                      : proof.timeout != nullptr ? until_ns - proof.begin_ns
                                                 : silent_ns;
    proof.waited_ns = std::max<int64_t>(proof.waited_ns, 0);
  }
  return proof;
}

/// A rank that made later calls elsewhere may wait there itself, or is in its job's next life. Empty: none did.
std::string waits_elsewhere(const OrderEvidence& evidence, const OrderMembers& away) {
  for (const CallOrder* member : away) {
    const ProcessLog& log = log_of(evidence, *member);
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

bool ended_anywhere(const OrderMembers& members, int64_t number) {
  return std::ranges::any_of(members, [&](const CallOrder* member) {
    const LoggedCall* call = member->call_at(number);
    return call != nullptr && call->ended;
  });
}

/// True if the call before is known to have ended nowhere although it was begun.
bool inside_before(const OrderMembers& away, const OrderMembers& came, int64_t number) {
  bool open = false;
  for (const OrderMembers* members : {&away, &came}) {
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

}  // namespace

const LoggedCall& OrderDifference::missing() const {
  return *std::ranges::lower_bound(came.front()->calls, before().number + 1, {}, &LoggedCall::number);
}

std::string why_not_missing(const OrderDifference& difference, const std::set<std::pair<CommHash, int32_t>>& recorded,
                            int64_t ahead, OrderProof& proof) {
  const OrderEvidence& evidence = difference.evidence;
  const CommOrder& comm = difference.comm;
  const OrderMembers& away = difference.away;
  const OrderMembers& came = difference.came;
  const LoggedCall& before = difference.before();
  if (ahead > kMostCallsAhead) {
    return "the others did not wait, so that its end is missing";
  }
  if (std::ranges::any_of(away, [&](const CallOrder* one) { return log_of(evidence, *one).cut; })) {
    return "its last lines are damaged or cut off, so that what came after is not known";
  }
  if (std::ranges::any_of(came, [](const CallOrder* one) { return one->left; })) {
    return "others ended in good order, so that lines are missing";
  }
  if (std::ranges::any_of(away, [&](const CallOrder* one) {
        return one->rank && recorded.contains({comm.hash, *one->rank});
      })) {
    return "a recording shows that rank, and is judged instead";
  }
  if (std::ranges::any_of(away, [&](const CallOrder* one) { return reported_timeout(evidence, *one); })) {
    return "its own watchdog reported a call that did not end, so that it waits as well";
  }
  proof = proof_of(difference);
  if (!proof.left) {
    if (const std::string where = waits_elsewhere(evidence, away); !where.empty()) {
      return where;
    }
  }
  if (before.open && ended_anywhere(came, before.number)) {
    return "it had not ended that call, others had: its dump was made earlier";
  }
  if (inside_before(away, came, before.number)) {
    return fmt::format(
        "all have begun {} and it ended nowhere: its transfer holds the job up, not a rank that is missing",
        call_name(before));
  }
  if (!proof.any()) {
    if (!difference.minority()) {
      return "nothing shows that the job stood still";
    }
    // Dumps are written when a call has timed out, logs end anywhere.
    if (evidence.timed && proof.longest_pause_ns > 0 && !(evidence.ends_known && proof.outside)) {
      return "nothing shows that the job stood still: the log may have been cut there";
    }
    const auto last_of = [](const CallOrder* one) { return one->last(); };
    const bool uniform = std::ranges::count(came, came.front()->last(), last_of) == std::ssize(came);
    const bool whole = std::ranges::none_of(came, [&](const CallOrder* one) { return log_of(evidence, *one).cut; });
    const bool stood = evidence.ends_known && proof.outside && none_ended_behind(came, before.number);
    if (!stood && (!uniform || !whole || ahead > kMostUnprovenCallsAhead)) {
      return "logs that were cut while the job ran look the same";
    }
  }
  return "";
}

}  // namespace stalltrace::analysis
