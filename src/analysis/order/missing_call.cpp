// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/missing_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/advice.h"
#include "analysis/thresholds/hangs.h"
#include "analysis/thresholds/order.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

double confidence_of(const OrderDifference& difference, const OrderProof& proof) {
  const OrderEvidence& evidence = difference.evidence;
  const CommOrder& comm = difference.comm;
  if (proof.left) {
    return kLeftConfidence;
  }
  if (!proof.any() && evidence.ends_known) {
    return kSomeRanksConfidence;
  }
  const bool all_shown = comm.nranks > 0 && std::ssize(comm.members) >= comm.nranks && comm.named;
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

Severity severity_of(const OrderProof& proof) {
  const bool long_wait =
      proof.silent && proof.waited_ns >= std::max(kLongWaitNs, kLongestWaits * proof.longest_pause_ns);
  return proof.left || proof.timeout != nullptr || long_wait ? Severity::kCritical : Severity::kWaiting;
}

std::string summary(const OrderDifference& difference, const OrderProof& proof) {
  const OrderEvidence& evidence = difference.evidence;
  const OrderMembers& away = difference.away;
  const OrderMembers& came = difference.came;
  const LoggedCall& missing = difference.missing();
  const LoggedCall& before = difference.before();
  const std::string others = evidence.names_of(came);
  const std::string who = away.size() == 1 ? evidence.describe(*away.front()) : evidence.names_of(away);
  std::string text;
  if (!difference.minority()) {
    text = fmt::format("{} began {}, the others ({}) did not",
                       came.size() == 1 ? evidence.describe(*came.front()) : others, call_name(missing),
                       evidence.names_of(away));
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
  return text + (evidence.ends_known
                     ? "; if the job hangs, look there first (dumps made at different moments look the same)."
                     : "; if the job hangs, look there first (a log that was cut while the job ran looks the same).");
}

void describe(const OrderDifference& difference, const OrderProof& proof, Finding& finding) {
  const OrderEvidence& evidence = difference.evidence;
  const OrderMembers& away = difference.away;
  const OrderMembers& came = difference.came;
  const CommOrder& comm = difference.comm;
  const LoggedCall& missing = difference.missing();
  const LoggedCall& before = difference.before();
  const auto add = [&](std::string kind, int64_t count, std::string text, std::vector<EventId> events = {}) {
    finding.evidence.push_back({std::move(kind), count, std::move(text), std::move(events)});
  };
  add("collective", std::ssize(came), fmt::format("began {}: {}", call_name(missing), evidence.names_of(came)),
      {missing.event});
  add("collective", std::ssize(away), fmt::format("last call {}: {}", call_name(before), evidence.names_of(away)),
      {before.event});
  for (const LoggedCall* call : {&missing, &before}) {
    if (const std::string location = evidence.location_of(*call); !location.empty()) {
      add("stack", 1, fmt::format("{} was called in {}", call_name(*call), location));
    }
  }
  if (proof.timeout != nullptr) {
    add("log_line", 1, proof.timeout->text.substr(0, 240));
  }
  if (std::ssize(comm.members) < comm.nranks) {
    add("communicator", std::ssize(comm.members),
        fmt::format("{} of its {} ranks are shown: another one may be further behind", comm.members.size(),
                    comm.nranks));
  }
  if (!comm.named) {
    add("communicator", std::ssize(comm.members),
        "no set-up line names the communicator: those with as many ranks were taken for one");
  }
  if (!proof.left && !proof.outside) {
    add("collective", 0,
        fmt::format("no end of {} is known: {} may be outside of all calls, or still wait inside it", call_name(before),
                    evidence.names_of(away)));
  }
}

std::string remedy(const OrderDifference& difference, const CallOrder* culprit) {
  if (culprit == nullptr || !difference.minority()) {
    return std::string(kLookForUnevenCalls);
  }
  return look_at_absent(difference.evidence.describe(*culprit));
}

}  // namespace

Finding missing_call(const OrderDifference& difference, const OrderProof& proof) {
  const OrderMembers& away = difference.away;
  const OrderMembers& came = difference.came;
  const bool minority = difference.minority();
  const CallOrder* culprit = minority && away.size() == 1    ? away.front()
                             : !minority && came.size() == 1 ? came.front()
                                                             : nullptr;
  Finding finding{.cause = Cause::kMissingCollective, .severity = severity_of(proof)};
  finding.confidence = confidence_of(difference, proof);
  if (culprit != nullptr) {
    finding.culprit = difference.evidence.culprit(*culprit);
  }
  finding.comm_id_hash = difference.comm.named ? difference.comm.hash : 0;
  finding.op = difference.missing().signature.op;
  finding.collectives_affected = 1;
  finding.stall_ms = static_cast<double>(proof.waited_ns) / static_cast<double>(kNsPerMs);
  finding.window = {proof.begin_ns, proof.begin_ns + proof.waited_ns};
  finding.summary = summary(difference, proof);
  describe(difference, proof, finding);
  finding.remedy = remedy(difference, culprit);
  return finding;
}

}  // namespace stalltrace::analysis
