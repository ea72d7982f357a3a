// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/expensive_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "analysis/timeline/instance.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// A call in the timeline, which does not hold its id.
struct MemberCall {
  const Member* member = nullptr;
  CommHash hash = 0;
  int64_t time_ns = 0;  // on its node's own clock
  int64_t seq = 0;
  Operation op = Operation::kAllReduce;
  int64_t bytes = 0;  // of its signature

  /// Calls of one NCCL group have one arrival time: the number of other fields that match the row, -1 for another call.
  [[nodiscard]] int likeness(const Collective& row) const {
    const bool same = row.timestamp_ns == time_ns && row.node_id == member->node_id && row.pid == member->pid &&
                      row.comm_id_hash == hash;
    return same ? (row.op == op ? 4 : 0) + (signature_bytes(row) == bytes ? 2 : 0) + (row.seq == seq ? 1 : 0) : -1;
  }
};

/// The culprit's call in the stalled instance, or the call of the rank that waited longest.
std::optional<MemberCall> call_in(const Cluster& cluster, const Timeline& timeline, const Stall& stall,
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
  const Member& member = member_of(chosen);
  const CallSequence& sequence = timeline.sequences()[chosen.sequence];
  const CallSignature& signature = timeline.signature(sequence.call_at(stall.number)->signature);
  return MemberCall{.member = &member,
                    .hash = sequence.hash,
                    .time_ns = chosen.arrival_ns - cluster.clock().shift_ns(member.node_id),
                    .seq = stall.number - sequence.number_offset,
                    .op = signature.op,
                    .bytes = signature.bytes};
}

Result<std::optional<EventId>> id_of(EventSource& source, const MemberCall& call) {
  std::optional<EventId> id;
  int most = -1;
  ST_TRY(source.collectives({call.time_ns, call.time_ns + 1}, [&](const Collective& row) {
    if (const int likeness = call.likeness(row); likeness > most) {
      most = likeness;
      id = row.event_id;
    }
  }));
  return id;
}

}  // namespace

Status add_expensive_calls(EventSource& source, const Cluster& cluster, const Timeline& timeline,
                           std::vector<StallFinding>& findings) {
  for (auto& [finding, stalls] : findings) {
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
      const std::optional<MemberCall> call = call_in(cluster, timeline, *stall, finding.culprit);
      if (!call) {
        continue;
      }
      ST_ASSIGN(const std::optional<EventId> id, id_of(source, *call));
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
