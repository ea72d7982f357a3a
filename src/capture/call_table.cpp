// SPDX-License-Identifier: Apache-2.0
#include "capture/call_table.h"

#include <array>

namespace stalltrace::capture {
namespace {

constexpr auto kNccl = static_cast<__u8>(Library::kNccl);
constexpr auto kCollective = CallFamily::kCollectiveLibrary;
constexpr auto kGpu = CallFamily::kGpuRuntime;

constexpr __u8 op(Operation operation) { return static_cast<__u8>(operation); }

/// A stream or event call of a GPU runtime.
constexpr st_call_spec sync(st_call_kind kind, __u8 stream, __u8 event) {
  return {.kind = static_cast<__u8>(kind), .stream = stream, .event = event};
}

// Not here: ncclCommGetAsyncError, cudaEventQuery, cudaStreamQuery. Frameworks poll them; a trap on each would be dear.
// clang-format off
constexpr std::array kCalls{
    // Collectives and point-to-point.
    Call{"ncclAllReduce", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kAllReduce), .library = kNccl, .count = 3, .datatype = 4,
          .reduce_op = 5, .comm = 6, .stream = 7, .stack_arguments = 1}},
    Call{"ncclReduceScatter", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kReduceScatter), .library = kNccl, .count = 3, .datatype = 4,
          .reduce_op = 5, .comm = 6, .stream = 7, .stack_arguments = 1}},
    Call{"ncclReduce", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kReduce), .library = kNccl, .count = 3, .datatype = 4,
          .reduce_op = 5, .root = 6, .comm = 7, .stream = 8, .stack_arguments = 2}},
    Call{"ncclAllGather", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kAllGather), .library = kNccl, .count = 3, .datatype = 4,
          .comm = 5, .stream = 6}},
    Call{"ncclBroadcast", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kBroadcast), .library = kNccl, .count = 3, .datatype = 4,
          .root = 5, .comm = 6, .stream = 7, .stack_arguments = 1}},
    Call{"ncclBcast", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kBroadcast), .library = kNccl, .count = 2, .datatype = 3,
          .root = 4, .comm = 5, .stream = 6}},
    Call{"ncclAlltoAll", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kAllToAll), .library = kNccl, .count = 3, .datatype = 4,
          .comm = 5, .stream = 6}},
    Call{"ncclGather", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kGather), .library = kNccl, .count = 3, .datatype = 4,
          .root = 5, .comm = 6, .stream = 7, .stack_arguments = 1}},
    Call{"ncclScatter", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kScatter), .library = kNccl, .count = 3, .datatype = 4,
          .root = 5, .comm = 6, .stream = 7, .stack_arguments = 1}},
    Call{"ncclSend", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kSend), .library = kNccl, .count = 2, .datatype = 3,
          .peer = 4, .comm = 5, .stream = 6}},
    Call{"ncclRecv", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kRecv), .library = kNccl, .count = 2, .datatype = 3,
          .peer = 4, .comm = 5, .stream = 6}},
    // RCCL's own all-to-all, older than NCCL's and with NCCL's later signature.
    Call{"ncclAllToAll", kCollective,
         {.kind = ST_CALL_DATA, .operation = op(Operation::kAllToAll), .library = kNccl, .count = 3, .datatype = 4,
          .comm = 5, .stream = 6}},
    // Groups.
    Call{"ncclGroupStart", kCollective, {.kind = ST_CALL_GROUP_START, .operation = op(Operation::kGroup), .library = kNccl}},
    Call{"ncclGroupEnd", kCollective, {.kind = ST_CALL_GROUP_END, .operation = op(Operation::kGroup), .library = kNccl}},
    // Communicators.
    Call{"ncclCommInitRank", kCollective,
         {.kind = ST_CALL_COMM_INIT, .operation = op(Operation::kCommInitRank), .library = kNccl, .new_comm = 1,
          .nranks = 2, .rank = 3, .id_by_value = 1}},
    Call{"ncclCommInitRankConfig", kCollective,
         {.kind = ST_CALL_COMM_INIT, .operation = op(Operation::kCommInitRank), .library = kNccl, .new_comm = 1,
          .nranks = 2, .rank = 3, .id_by_value = 1}},
    Call{"ncclCommInitRankScalable", kCollective,
         {.kind = ST_CALL_COMM_INIT, .operation = op(Operation::kCommInitRank), .library = kNccl, .new_comm = 1,
          .nranks = 2, .rank = 3, .id = 5}},
    Call{"ncclCommInitAll", kCollective,
         {.kind = ST_CALL_COMM_INIT_ALL, .operation = op(Operation::kCommInitAll), .library = kNccl, .new_comm = 1,
          .nranks = 2}},
    Call{"ncclCommSplit", kCollective,
         {.kind = ST_CALL_COMM_SPLIT, .operation = op(Operation::kCommSplit), .library = kNccl, .comm = 1, .new_comm = 4,
          .color = 2, .key = 3}},
    Call{"ncclCommShrink", kCollective,
         {.kind = ST_CALL_COMM_SPLIT, .operation = op(Operation::kCommSplit), .library = kNccl, .comm = 1,
          .new_comm = 4}},
    Call{"ncclCommGrow", kCollective,
         {.kind = ST_CALL_COMM_INIT, .operation = op(Operation::kCommInitRank), .library = kNccl, .comm = 1,
          .new_comm = 5, .nranks = 2, .rank = 4, .id = 3}},
    Call{"ncclCommFinalize", kCollective,
         {.kind = ST_CALL_COMM_END, .operation = op(Operation::kCommDestroy), .library = kNccl, .comm = 1}},
    Call{"ncclCommDestroy", kCollective,
         {.kind = ST_CALL_COMM_END, .operation = op(Operation::kCommDestroy), .library = kNccl, .comm = 1}},
    Call{"ncclCommAbort", kCollective,
         {.kind = ST_CALL_COMM_END, .operation = op(Operation::kCommAbort), .library = kNccl, .comm = 1}},
    Call{"ncclCommRevoke", kCollective,
         {.kind = ST_CALL_COMM_END, .operation = op(Operation::kCommAbort), .library = kNccl, .comm = 1}},
    Call{"ncclCommUserRank", kCollective, {.kind = ST_CALL_COMM_QUERY_RANK, .library = kNccl, .comm = 1, .out = 2}},
    Call{"ncclCommCount", kCollective, {.kind = ST_CALL_COMM_QUERY_COUNT, .library = kNccl, .comm = 1, .out = 2}},
    // CUDA runtime. The _ptsz names are the per-thread default stream's.
    Call{"cudaStreamSynchronize", kGpu, sync(ST_CALL_SYNC_STREAM, 1, 0)},
    Call{"cudaStreamSynchronize_ptsz", kGpu, sync(ST_CALL_SYNC_STREAM, 1, 0)},
    Call{"cudaDeviceSynchronize", kGpu, sync(ST_CALL_SYNC_DEVICE, 0, 0)},
    Call{"cudaEventSynchronize", kGpu, sync(ST_CALL_SYNC_EVENT, 0, 1)},
    Call{"cudaEventRecord", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cudaEventRecord_ptsz", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cudaEventRecordWithFlags", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cudaEventRecordWithFlags_ptsz", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cudaStreamWaitEvent", kGpu, sync(ST_CALL_STREAM_WAIT_EVENT, 1, 2)},
    Call{"cudaStreamWaitEvent_ptsz", kGpu, sync(ST_CALL_STREAM_WAIT_EVENT, 1, 2)},
    // CUDA driver.
    Call{"cuStreamSynchronize", kGpu, sync(ST_CALL_SYNC_STREAM, 1, 0)},
    Call{"cuStreamSynchronize_ptsz", kGpu, sync(ST_CALL_SYNC_STREAM, 1, 0)},
    Call{"cuCtxSynchronize", kGpu, sync(ST_CALL_SYNC_DEVICE, 0, 0)},
    Call{"cuEventSynchronize", kGpu, sync(ST_CALL_SYNC_EVENT, 0, 1)},
    Call{"cuEventRecord", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cuEventRecord_ptsz", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cuStreamWaitEvent", kGpu, sync(ST_CALL_STREAM_WAIT_EVENT, 1, 2)},
    Call{"cuStreamWaitEvent_ptsz", kGpu, sync(ST_CALL_STREAM_WAIT_EVENT, 1, 2)},
    // HIP, for RCCL.
    Call{"hipStreamSynchronize", kGpu, sync(ST_CALL_SYNC_STREAM, 1, 0)},
    Call{"hipDeviceSynchronize", kGpu, sync(ST_CALL_SYNC_DEVICE, 0, 0)},
    Call{"hipEventSynchronize", kGpu, sync(ST_CALL_SYNC_EVENT, 0, 1)},
    Call{"hipEventRecord", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"hipStreamWaitEvent", kGpu, sync(ST_CALL_STREAM_WAIT_EVENT, 1, 2)},
};
// clang-format on
static_assert(kCalls.size() <= ST_MAX_CALLS);

}  // namespace

std::span<const Call> call_table() { return kCalls; }

}  // namespace stalltrace::capture
