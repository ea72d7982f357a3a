// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_log/comm_rows.h"

#include <algorithm>

namespace stalltrace::import {
namespace {

constexpr uint64_t kMostCallNumber = uint64_t{1} << 40;

}  // namespace

Collective set_up_row(LogNode& node, const LoggedProcess& process, const LoggedComm& comm, int64_t start_ns,
                      int64_t end_ns) {
  Collective row;
  row.event_id = node.next_event();
  row.node_id = node.row.node_id;
  row.op = comm.set_up->parent != 0 ? Operation::kCommSplit : Operation::kCommInitRank;
  row.timestamp_ns = start_ns;
  row.called_ns = start_ns;
  if (comm.set_up_ended) {
    row.completion = Completion::kCall;
    row.duration_ns = std::max<int64_t>(end_ns - start_ns, 0);
  }
  row.rank = comm.rank;
  row.rank_source = comm.rank_source;
  row.nranks = comm.nranks;
  row.comm_id_hash = comm.hash;
  row.comm_ptr = comm.comm;
  row.pid = process.pid;
  return row;
}

Collective call_row(LogNode& node, const LoggedProcess& process, const LoggedComm& comm, const BeganCall& call,
                    int64_t ordinal, int64_t time_ns) {
  const bool pair = is_point_to_point(*call.op);
  Collective row;
  row.event_id = node.next_event();
  row.node_id = node.row.node_id;
  row.op = *call.op;
  row.timestamp_ns = time_ns;
  row.called_ns = time_ns;
  row.completion = Completion::kUnobserved;
  if (!pair && comm.order == LoggedComm::Order::kOpCount) {
    row.seq = static_cast<int64_t>(std::min<uint64_t>(call.op_count, kMostCallNumber));
  } else if (!pair && comm.order == LoggedComm::Order::kOrdinal) {
    row.seq = ordinal;
  }
  row.rank = comm.rank;
  row.rank_source = comm.rank ? comm.rank_source : RankSource::kUnknown;
  row.nranks = call.nranks;
  row.comm_id_hash = comm.hash;
  row.comm_ptr = call.comm;
  row.pid = process.pid;
  row.count = call.count;
  row.datatype = call.datatype;
  const int element = call.datatype ? nccl_datatype_size(*call.datatype) : 0;
  row.bytes = payload_bytes(row.op, call.count.value_or(0), element, call.nranks);
  row.reduce_op = call.reduce_op;
  if (pair) {
    row.peer = call.root;
  } else if (row.op == Operation::kBroadcast || row.op == Operation::kReduce || row.op == Operation::kGather ||
             row.op == Operation::kScatter) {
    row.root = call.root;
  }
  row.stream = call.stream;
  return row;
}

Communicator communicator_row(const LogNode& node, const LoggedProcess& process, const LoggedComm& comm,
                              int64_t created_ns, int64_t end_ns) {
  Communicator row{.node_id = node.row.node_id, .pid = process.pid, .comm_ptr = comm.comm};
  row.comm_id_hash = comm.hash;
  row.nccl_comm_hash = comm.set_up && comm.set_up->comm_id != 0 ? comm.hash : 0;
  row.rank = comm.rank;
  row.rank_source = comm.rank_source;
  row.nranks = comm.nranks;
  if (comm.set_up) {
    row.split_color = comm.set_up->color;
    row.split_key = comm.set_up->key;
  }
  row.created_ns = created_ns;
  if (comm.ended_line > 0 && !comm.aborted) {
    row.destroyed_ns = std::max(end_ns, created_ns);
  }
  return row;
}

}  // namespace stalltrace::import
