// SPDX-License-Identifier: Apache-2.0
#include "analysis/profiles/call_ids.h"

#include <set>

#include "model/streams/node_streams.h"

namespace stalltrace::analysis {
namespace {

struct CallFields {
  const Member& member;
  CommHash hash = 0;
  ClockLine clock;      // of its node
  int64_t time_ns = 0;  // of its arrival, on the common clock
  int64_t seq = 0;
  Operation op = Operation::kAllReduce;
  int64_t bytes = 0;  // of its signature

  /// Calls of one NCCL group have one arrival time: the number of other fields that match the row, -1 for another call.
  [[nodiscard]] int likeness(const Collective& row) const {
    const bool same = clock.at(row.timestamp_ns) == time_ns && row.node_id == member.node_id && row.pid == member.pid &&
                      row.comm_id_hash == hash;
    return same ? (row.op == op ? 4 : 0) + (signature_bytes(row) == bytes ? 2 : 0) + (row.seq == seq ? 1 : 0) : -1;
  }
};

}  // namespace

Result<std::optional<EventId>> find_call_id(EventSource& source, const Cluster& cluster, const Timeline& timeline,
                                            uint32_t sequence_index, int64_t number) {
  const CallSequence& sequence = timeline.sequences()[sequence_index];
  const Call* call = sequence.call_at(number);
  if (call == nullptr) {
    return std::nullopt;
  }
  const Member& member = cluster.member(sequence.member);
  const CallSignature& signature = timeline.signature(call->signature);
  const CallFields fields{.member = member,
                          .hash = sequence.hash,
                          .clock = cluster.clock().line(member.node_id),
                          .time_ns = call->arrival_ns,
                          .seq = number - sequence.number_offset,
                          .op = signature.op,
                          .bytes = signature.bytes};
  std::optional<EventId> id;
  int most = -1;
  const std::set<NodeId> node{member.node_id};
  const int64_t row_ns = fields.clock.back(fields.time_ns);  // give or take a nanosecond, where the clock drifts
  ST_TRY(stream_by_node<Collective>(source, {row_ns - 1, row_ns + 2}, &node, [&](const Collective& row) {
    if (const int likeness = fields.likeness(row); likeness > most) {
      most = likeness;
      id = row.event_id;
    }
  }));
  return id;
}

}  // namespace stalltrace::analysis
