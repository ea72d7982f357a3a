// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/expensive_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "analysis/profiles/call_ids.h"
#include "analysis/thresholds/gates.h"
#include "analysis/timeline/instance.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// The call sequence of the culprit in the stalled instance, or of the rank that waited longest.
std::optional<uint32_t> sequence_in(const Cluster& cluster, const Timeline& timeline, const Stall& stall,
                                    const std::optional<Culprit>& culprit) {
  Instance instance;
  if (!read_instance(timeline, stall.group, stall.number, instance) || instance.seen.empty()) {
    return std::nullopt;
  }
  const auto member_of = [&](const Arrival& seen) -> const Member& {
    return cluster.member(timeline.sequences()[seen.sequence].member);
  };
  const auto own = std::ranges::find_if(instance.seen, [&](const Arrival& seen) {
    return culprit && member_of(seen).node == culprit->node && member_of(seen).pid == culprit->pid;
  });
  const Arrival& chosen = own == instance.seen.end() ? instance.seen.front() : *own;
  return chosen.sequence;
}

}  // namespace

Status add_expensive_calls(EventSource& source, const Cluster& cluster, const Timeline& timeline,
                           std::vector<StallFinding>& findings) {
  for (auto& [finding, stalls, unproven] : findings) {
    std::set<std::pair<uint32_t, int64_t>> instances;
    std::vector<EventId> ids;
    std::vector<std::string> texts;
    for (const Stall* stall : stalls) {
      if (ids.size() == kExpensiveCalls || instances.size() == 2 * kExpensiveCalls) {
        break;
      }
      if (!instances.insert({stall->group, stall->number}).second) {
        continue;
      }
      const std::optional<uint32_t> sequence = sequence_in(cluster, timeline, *stall, finding.culprit);
      if (!sequence) {
        continue;
      }
      ST_ASSIGN(const std::optional<EventId> id, find_call_id(source, cluster, timeline, *sequence, stall->number));
      if (id) {
        ids.push_back(*id);
        texts.push_back(fmt::format("{}:{} ({})", cluster.node_name(node_of(*id)), number_of(*id),
                                    format_duration(stall->lost_ns)));
      }
    }
    if (!ids.empty()) {
      const std::string first = texts.front().substr(0, texts.front().find(' '));
      finding.evidence.push_back({"collective", static_cast<int64_t>(ids.size()),
                                  fmt::format("most expensive: {}; look at one with stalltrace explain FILE... "
                                              "--instance {}",
                                              fmt::join(texts, ", "), first),
                                  ids});
    }
  }
  return {};
}

}  // namespace stalltrace::analysis
