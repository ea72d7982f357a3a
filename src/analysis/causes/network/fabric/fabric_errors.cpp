// SPDX-License-Identifier: Apache-2.0
// fabric_errors: while all ranks waited for a transfer, the error counters of a node's InfiniBand or RoCE port rose
// faster than far from all stalls and than those of the other nodes, on a port that carried data. Errors of an idle
// port prove nothing, nor do counters that rise all the time or everywhere.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>

#include "analysis/causes/cause.h"
#include "analysis/causes/network/common_location.h"
#include "analysis/causes/network/fabric/port_contrast.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/fabric.h"
#include "analysis/thresholds/gates.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kErrors };
constexpr std::array kErrorKinds{PortCounterKind::kError};

/// At least one of the two comparisons has to be possible, and none may speak against it.
bool stands_out(const PortCounts& port) {
  return (port.above_calm() || !port.calm_per_second) && (port.above_others() || !port.others_per_second) &&
         (port.calm_per_second || port.others_per_second);
}

/// One hypothesis for each node: the ports of a node are one location, and its ranks share them.
void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.part() != StallPart::kTransfer) {
    return;
  }
  std::map<NodeId, size_t> of_node;
  for (const PortCounts& port : port_counts(context, stall, PortCounterKind::kError)) {
    const double coverage = share_of(port.rose_ns, stall.examined().length());
    const bool applies =
        port.carries && port.per_second >= kFabricErrorsPerSecond && stands_out(port) && coverage >= kCoverage;
    const auto [found, fresh] = of_node.try_emplace(port.node, out.size());
    if (fresh) {
      out.push_back({.cause = Cause::kFabricErrors});
      blame_end(context, port.member, out.back().location);
    }
    Hypothesis& hypothesis = out[found->second];
    hypothesis.why += (hypothesis.why.empty() ? "errors: " : "; ") + port.text(context.cluster);
    if (applies) {
      hypothesis.applies = true;
      hypothesis.coverage = std::max(hypothesis.coverage, coverage);
      for (const auto& [counter, value] : port.by_counter) {
        const int64_t count = std::llround(value);
        hypothesis.counters.at(Counted::kErrors, fmt::format("{} {}", port.port, counter)) = {count, count, {}};
      }
    }
  }
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const std::string who = end_text(context, group.location);
  finding.summary = fmt::format("A network port of {} counts errors while transfers stall ({}): {}.", who,
                                group.counters.longest_detail(Counted::kErrors), cost_text(group));
  std::ranges::move(port_evidence(context, group, kErrorKinds), std::back_inserter(finding.evidence));
  finding.remedy = fmt::format(
      "check cable, optics and switch port of {} (perfquery, ibdiagnet, mlxlink, ethtool -S); take the node out of the "
      "job until its counters stay still",
      finding.culprit->node);
}

}  // namespace

extern const CauseRule kFabricErrorsRule{.cause = Cause::kFabricErrors,
                                         .gate = kSlowLinkGate,
                                         .needs = "no InfiniBand or RoCE port of its nodes counted errors in that time",
                                         .judge = judge,
                                         .describe = describe};

}  // namespace stalltrace::analysis
