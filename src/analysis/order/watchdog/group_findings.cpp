// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/watchdog/group_findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "analysis/advice.h"
#include "analysis/thresholds/order.h"
#include "base/clock.h"
#include "base/text.h"
#include "model/events/imported/torch_report.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kLongestQuote = 300;

std::string signature_text(const WatchdogState& state) {
  return state.elements ? fmt::format("{} of {}", state.op, count_of(*state.elements, "element")) : state.op;
}

}  // namespace

MissingRanks ranks_without_line(const WatchdogLogs& logs) {
  const int32_t shown = logs.ranks.empty() ? 0 : *logs.ranks.rbegin() + 1;
  return {logs.ranks, std::max(shown, logs.world_size)};
}

std::string GroupFindings::call_text(int64_t number, const WatchdogRanks& ranks) const {
  const WatchdogState* named = nullptr;
  for (const int32_t rank : ranks) {
    const WatchdogState& state = group_.ranks.at(rank);
    named = named == nullptr && state.waits_in == number && !state.op.empty() ? &state : named;
  }
  return fmt::format("call {}{}{}", number, named == nullptr ? "" : fmt::format(" ({})", signature_text(*named)),
                     group_.name.empty() ? "" : fmt::format(" of process group {}", group_.name));
}

Finding GroupFindings::finding_of(Cause cause, double confidence, const WatchdogRanks& waiting) const {
  Finding finding{.cause = cause, .severity = Severity::kCritical, .confidence = confidence};
  finding.collectives_affected = 1;
  int64_t waited_ms = 0;
  int64_t until_ns = 0;
  for (const int32_t rank : waiting) {
    const WatchdogState& state = group_.ranks.at(rank);
    waited_ms = std::max(waited_ms, state.waited_ms.value_or(0));
    until_ns = std::max(until_ns, state.time_ns);
    finding.op = state.op.empty() ? finding.op : operation_of_torch(state.op);
  }
  constexpr int64_t kLongestMs = int64_t{100} * 86'400 * 1000;
  waited_ms = std::min(waited_ms, kLongestMs);
  finding.stall_ms = static_cast<double>(waited_ms);
  finding.window = {until_ns - waited_ms * kNsPerMs, until_ns};
  if (!waiting.empty()) {
    quote(waiting.front(), finding);
  }
  return finding;
}

void GroupFindings::quote(int32_t rank, Finding& finding) const {
  finding.evidence.push_back({"log_line", 1, group_.ranks.at(rank).text.substr(0, kLongestQuote), {}});
}

Culprit GroupFindings::culprit(int32_t rank) const {
  const WatchdogState& state = group_.ranks.at(rank);
  Culprit who{"", rank, state.pid};
  const auto name = logs_.node_names.find(state.node_id);
  who.node = state.pid == 0 || name == logs_.node_names.end() ? "" : name->second;
  return who;
}

/// Without the group's name, or with ranks of which nothing is known, another one may be further behind.
double GroupFindings::at_most(double confidence, const OlderRanks& older) const {
  const bool all_shown = ranks_without_line(logs_).empty() && older.ranks.empty();
  return group_.name.empty() || !all_shown ? std::min(confidence, kSomeRanksConfidence) : confidence;
}

Finding GroupFindings::mismatched(int64_t number, const WatchdogRanks& waiting,
                                  const std::vector<WatchdogRanks>& sides) const {
  Finding finding = finding_of(Cause::kMismatchedCollective, kLeftConfidence, waiting);
  const bool odd = sides.size() == 2 && sides[1].size() == 1 && sides[0].size() > 1;
  if (odd) {
    finding.culprit = culprit(sides[1].front());
    quote(sides[1].front(), finding);
  }
  constexpr size_t kSidesNamed = 3;
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(sides.size(), kSidesNamed); ++i) {
    texts.push_back(fmt::format("{} {}", ranks_text(sides[i]), signature_text(group_.ranks.at(sides[i].front()))));
  }
  finding.summary = fmt::format("Ranks entered different collectives as call {} of process group {}: {}.", number,
                                group_.name, fmt::join(texts, "; "));
  finding.remedy = kCompareCode;
  return finding;
}

Finding GroupFindings::missing(int64_t number, const WatchdogRanks& came, const WatchdogRanks& behind,
                               const OlderRanks& older) const {
  const std::string call = call_text(number, came);
  const bool outside = std::ranges::all_of(behind, [&](int32_t rank) { return group_.ranks.at(rank).outside(); });
  const bool minority = behind.size() < came.size() || (behind.size() == 1 && came.size() == 1);
  WatchdogRanks waiting;
  std::ranges::copy_if(came, std::back_inserter(waiting),
                       [&](int32_t rank) { return group_.ranks.at(rank).waits_in.has_value(); });
  Finding finding = finding_of(Cause::kMissingCollective,
                               at_most(outside ? kOutsideConfidence : kStandingStillConfidence, older), waiting);
  const WatchdogRanks& blamed = minority ? behind : came;
  if (blamed.size() == 1) {
    finding.culprit = culprit(blamed.front());
  }
  quote(behind.front(), finding);
  finding.summary = minority
                        ? fmt::format("{} did not begin {}, in which {} waited until PyTorch's watchdog reported it.",
                                      ranks_text(behind), call, ranks_text(came))
                        : fmt::format("{} began {}, the others ({}) did not; PyTorch's watchdog reported it.",
                                      ranks_text(came), call, ranks_text(behind));
  finding.summary[0] = 'R';
  if (!outside) {
    finding.evidence.push_back({"log_line",
                                std::ssize(behind),
                                fmt::format("an earlier call of {} had not ended, either", ranks_text(behind)),
                                {}});
  }
  finding.evidence.push_back(
      {"log_line",
       0,
       "PyTorch counts a call when NCCL's function has returned: a rank that stands inside of it looks the same",
       {}});
  if (!older.ranks.empty()) {
    finding.evidence.push_back({"log_line", std::ssize(older.ranks), older.text, {}});
  }
  finding.remedy = minority ? look_at_absent(ranks_text(behind)) : std::string(kLookForUnevenCalls);
  return finding;
}

Finding GroupFindings::stuck(int64_t number, int64_t last, const WatchdogRanks& stuck, const WatchdogRanks& ahead,
                             const OlderRanks& older) const {
  Finding finding = finding_of(Cause::kUnknown, at_most(kStandingStillConfidence, older), stuck);
  if (stuck.size() == 1) {
    finding.culprit = culprit(stuck.front());
  }
  quote(ahead.front(), finding);
  const bool all_wait =
      std::ranges::all_of(ahead, [&](int32_t rank) { return group_.ranks.at(rank).waits_in.has_value(); });
  finding.summary = fmt::format("{} did not end {}, which ended on {}{}.", ranks_text(stuck), call_text(number, stuck),
                                ranks_text(ahead), all_wait ? fmt::format(": these wait in call {}", last) : "");
  finding.summary[0] = 'R';
  finding.remedy = fmt::format(
      "look at the GPU of {} (dmesg: Xid; nvidia-smi -q) and at its links; the cause was not recorded: run the job "
      "with stalltrace run, or with NCCL_DEBUG=INFO",
      ranks_text(stuck));
  return finding;
}

}  // namespace stalltrace::analysis
