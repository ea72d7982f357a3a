// SPDX-License-Identifier: Apache-2.0
#include "blackbox/decode/communicator.h"

namespace stalltrace::blackbox {

std::optional<Communicator> decode_communicator(const st_box_communicator& entry, const Owner& owner) {
  const auto created_ns = to_utc(entry.created_ns, owner.clock_offset_ns);
  if (!created_ns) {
    return std::nullopt;
  }
  Communicator row;
  row.node_id = owner.node_id;
  row.pid = owner.pid;
  row.comm_ptr = entry.serial;
  row.comm_id_hash = entry.hash;  // the file lacks the unique id, so NCCL's own hash takes its place
  row.nccl_comm_hash = entry.hash;
  row.rank = rank_of(entry.rank);
  row.rank_source = row.rank ? RankSource::kPlugin : RankSource::kUnknown;
  row.nranks = entry.ranks > 0 ? rank_of(entry.ranks) : std::nullopt;
  row.created_ns = *created_ns;
  row.destroyed_ns = to_utc(entry.destroyed_ns, owner.clock_offset_ns);
  return row;
}

}  // namespace stalltrace::blackbox
