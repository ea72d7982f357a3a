// SPDX-License-Identifier: Apache-2.0
#include "plugin/recorder/event_descriptor.h"

namespace stalltrace::plugin {

void fill_net(const nccl::NetPlugin& from, Event& to) {
  to.type = ST_BOX_NET;
  st_box_net& net = to.u.net;
  net.plugin_id = from.id;
  net.fd_or_device = -1;
  if (from.data == nullptr) {
    return;
  }
  if (from.id == (nccl::kNetTypeSocket | 1)) {
    const auto& event = *static_cast<const nccl::NetSocketV1*>(from.data);
    net.fd_or_device = event.socket.fd;
    net.operation = event.socket.operation;
    net.length_bytes = event.socket.length_bytes;
  } else if (from.id == (nccl::kNetTypeIb | 1)) {
    const auto& event = *static_cast<const nccl::NetIbV1*>(from.data);
    net.fd_or_device = event.request.device;
    net.operation = event.request.opcode;
    net.length_bytes = event.request.length_bytes;
    net.work_request = event.request.work_request;
    net.queue_pair = event.request.queue_pair;
  }
}

void fill_copy_engine(const nccl::v6::CeColl& from, Event& to) {
  to.type = ST_BOX_CE_COLL;
  st_box_ce& ce = to.u.ce;
  ce.sequence = from.sequence;
  ce.count = from.count;
  ce.stream = reinterpret_cast<uint64_t>(from.stream);
  ce.root = from.root;
  ce.batch_size = from.batch_size;
  ce.batches = from.batches;
  ce.ce_sequence = from.ce_sequence;
  ce.operation = operation_of(from.function);
  ce.datatype = datatype_of(from.datatype);
  ce.multicast = from.sync_strategy != nullptr && from.sync_strategy[0] == 'M' ? 1 : 0;
  ce.intra_sync = from.intra_batch_sync ? 1 : 0;
}

void fill_copy_engine_sync(const nccl::v6::CeSync& from, Event& to) {
  to.type = ST_BOX_CE_SYNC;
  to.u.ce.batches = static_cast<uint32_t>(from.ranks);
  to.u.ce.is_complete = from.is_complete ? 1 : 0;
}

void fill_copy_engine_batch(const nccl::v6::CeBatch& from, Event& to) {
  to.type = ST_BOX_CE_BATCH;
  to.u.ce.batches = static_cast<uint32_t>(from.operations);
  to.u.ce.count = from.total_bytes;
  to.u.ce.intra_sync = from.use_intra_sync ? 1 : 0;
}

}  // namespace stalltrace::plugin
