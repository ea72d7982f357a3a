// SPDX-License-Identifier: Apache-2.0
// congestion: transfers were slow, and the fabric showed why: packets were marked (ECN), senders were asked to slow
// down (CNP), or a port had no credit to send, far more often than outside of the stalls; nothing was lost or broken.
// Marks are how such a fabric works: without time to compare with they prove nothing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/fabric/port_contrast.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/fabric.h"
#include "analysis/thresholds/gates.h"

namespace stalltrace::analysis {
namespace {

/// The counters that a stall was judged by, the clearest first: the congested end receives the marks.
enum class Counted : uint8_t { kMarked, kThrottled, kNoCredit };
struct Sign {
  Counted counted;
  PortCounterKind kind;
  double per_second;  // smallest rate that slows anything
  std::string_view direction;
  std::string_view what;
};
constexpr std::array kSigns{
    Sign{Counted::kMarked, PortCounterKind::kMarked, kCongestionMarksPerSecond, "into",
         "packets on the way to it were marked"},
    Sign{Counted::kThrottled, PortCounterKind::kThrottled, kCongestionMarksPerSecond, "out of",
         "it was asked to send more slowly"},
    Sign{Counted::kNoCredit, PortCounterKind::kNoCredit, kCreditWaitsPerSecond, "out of",
         "it waited for room at its neighbour"},
};
constexpr std::array kKinds{PortCounterKind::kMarked, PortCounterKind::kThrottled, PortCounterKind::kNoCredit};

/// True if a rule before this one has found loss or errors: what the fabric marks then is a consequence.
bool is_loss(const Hypothesis& hypothesis) {
  constexpr std::array kLosses{Cause::kFabricErrors, Cause::kPacketLoss,   Cause::kHostDrop,
                               Cause::kPartition,    Cause::kMtuBlackhole, Cause::kConnectionReset};
  return hypothesis.applies && std::ranges::find(kLosses, hypothesis.cause) != kLosses.end();
}

void count(const PortCounts& port, const Sign& sign, Hypothesis& hypothesis) {
  for (const auto& [counter, value] : port.by_counter) {
    const int64_t times = std::llround(value);
    hypothesis.counters.at(sign.counted, fmt::format("{} {}", port.port, counter)) = {times, times, {}};
  }
}

/// One hypothesis: congestion has one location, or is everywhere.
void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.part() != StallPart::kTransfer || stall.hung()) {
    return;
  }
  const bool lossy = std::ranges::any_of(out, is_loss);
  Hypothesis hypothesis{.cause = Cause::kCongestion};
  for (const Sign& sign : kSigns) {
    for (const PortCounts& port : port_counts(context, stall, sign.kind)) {
      const double coverage = share_of(port.rose_ns, stall.examined().length());
      hypothesis.why += (hypothesis.why.empty() ? "congestion: " : "; ") + port.text(context.cluster);
      if (lossy || !port.carries || port.per_second < sign.per_second || !port.above_calm() || coverage < kCoverage) {
        continue;
      }
      hypothesis.applies = true;
      hypothesis.coverage = std::max(hypothesis.coverage, coverage);
      if (port.above_others() && !hypothesis.location.at_one_end()) {
        blame_end(context, port.member, hypothesis.location);
        hypothesis.counters = {};
        count(port, sign, hypothesis);
      } else if (!hypothesis.location.at_one_end()) {
        count(port, sign, hypothesis);
      }
    }
  }
  if (!hypothesis.why.empty()) {
    hypothesis.why += lossy ? "; packets were lost, or ports counted errors" : "";
    out.push_back(std::move(hypothesis));
  }
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const auto* const first =
      std::ranges::find_if(kSigns, [&](const Sign& sign) { return group.counters.sum(sign.counted).count > 0; });
  const std::string counter = group.counters.longest_detail(first->counted);
  if (group.location.at_one_end()) {
    const std::string who = end_text(context, group.location);
    finding.summary = fmt::format("The network {} {} is congested, without errors or loss: {} ({}); {}.",
                                  first->direction, who, first->what, counter, cost_text(group));
    finding.remedy = fmt::format(
        "look at the switch port of {} and at what else uses it: jobs that share it, several senders to one port, "
        "routes that meet (ECMP, adaptive routing); then at the settings of ECN and PFC on the switches and of DCQCN "
        "on "
        "the cards, the same on all nodes",
        finding.culprit->node);
  } else {
    finding.summary = fmt::format(
        "The network between the ranks is congested, without errors or loss, and no node stands out ({}): {}.", counter,
        cost_text(group));
    finding.remedy =
        "look for other traffic in the fabric at that time (jobs, checkpoints, storage), at the uplinks between its "
        "switches and how routes are spread over them (ECMP, adaptive routing), and at the settings of ECN and PFC";
  }
  std::ranges::move(port_evidence(context, group, kKinds), std::back_inserter(finding.evidence));
}

}  // namespace

extern const CauseRule kCongestionRule{
    .cause = Cause::kCongestion,
    .gate = kSlowLinkGate,
    .needs = "no InfiniBand or RoCE port of its nodes counted marks, congestion notifications or waits for credit",
    .judge = judge,
    .describe = describe};

}  // namespace stalltrace::analysis
