// SPDX-License-Identifier: Apache-2.0
// fabric_errors: while all ranks waited for a transfer, the error counters of a node's InfiniBand or RoCE port rose, on
// a port that carried data. Errors of an idle port prove nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/causes/cause.h"
#include "base/text.h"
#include "model/events/port_counters.h"

namespace stalltrace::analysis {
namespace {

enum class Counted : uint8_t { kErrors };

bool is(std::string_view counter, PortCounterKind kind) { return kind_of_port_counter(counter) == kind; }

struct Port {
  bool carries = false;
  double errors = 0;
  int64_t rose_ns = 0;
  std::map<std::string, double> by_name;
};

void judge(const AnalysisContext& context, const Stall& stall, std::vector<Hypothesis>& out) {
  if (stall.part() != StallPart::kTransfer) {
    return;
  }
  for (const MemberIndex member : stall.members) {
    std::map<std::pair<std::string, int32_t>, Port> ports;
    for (const PortRise& rise :
         context.evidence.host().port_rises(context.cluster.member(member).node_id, stall.examined())) {
      Port& port = ports[{rise.device, rise.port}];
      port.carries = port.carries || is(rise.name, PortCounterKind::kData);
      if (is(rise.name, PortCounterKind::kError)) {
        port.errors += rise.value;
        port.rose_ns = std::max(port.rose_ns, rise.rose_ns);
        port.by_name[rise.name] += rise.value;
      }
    }
    for (const auto& [key, port] : ports) {
      if (port.errors == 0) {
        continue;
      }
      const std::string name = fmt::format("{} port {}", key.first, key.second);
      const double per_second =
          port.errors * static_cast<double>(kNsPerSecond) / static_cast<double>(stall.examined().length());
      Hypothesis hypothesis{.cause = Cause::kFabricErrors, .location = {.culprit = member}};
      hypothesis.coverage = share_of(port.rose_ns, stall.examined().length());
      hypothesis.applies = port.carries && per_second >= kFabricErrorsPerSecond && hypothesis.coverage >= kCoverage;
      hypothesis.why =
          fmt::format("{} of {} counted {:.0f} errors a second{}", name, short_name(context.cluster, member),
                      per_second, port.carries ? "" : ", and carried no data");
      for (const auto& [counter, value] : port.by_name) {
        const auto count = static_cast<int64_t>(value + 0.5);
        hypothesis.counters.at(Counted::kErrors, fmt::format("{} {}", name, counter)) = {count, count, {}};
      }
      out.push_back(std::move(hypothesis));
    }
  }
}

void describe(const AnalysisContext& context, const CauseGroup& group, Finding& finding) {
  const std::string most = group.counters.longest_detail(Counted::kErrors);
  finding.summary = fmt::format("The network port of {} counts errors while transfers stall ({}): {}.",
                                context.cluster.describe(group.location.culprit), most, cost_text(group));
  std::map<std::string, double> rises;  // overlapping stalls count each once
  const IntervalSet time = time_of(group);
  for (const Interval& lost : time.intervals()) {
    const NodeId node = context.cluster.member(group.location.culprit).node_id;
    for (const PortRise& rise : context.evidence.host().port_rises(node, lost)) {
      if (is(rise.name, PortCounterKind::kError)) {
        rises[fmt::format("{} port {} {}", rise.device, rise.port, rise.name)] += rise.value;
      }
    }
  }
  for (const auto& [counter, value] : rises) {
    finding.evidence.push_back(
        {"port_counter", std::llround(value), fmt::format("{} rose by {:.0f} during the stalls", counter, value), {}});
  }
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
