// SPDX-License-Identifier: Apache-2.0
#include "capture/call_table.h"

#include <array>

namespace stalltrace::capture {
namespace {

constexpr auto kNccl = static_cast<__u8>(Library::kNccl);
constexpr auto kMpi = static_cast<__u8>(Library::kMpi);
constexpr auto kGloo = static_cast<__u8>(Library::kGloo);
constexpr auto kCollective = CallFamily::kCollectiveLibrary;
constexpr auto kGpu = CallFamily::kGpuRuntime;

constexpr __u8 op(Operation operation) { return static_cast<__u8>(operation); }

/// A stream or event call of a GPU runtime.
constexpr st_call_spec sync(st_call_kind kind, __u8 stream, __u8 event) {
  return {.kind = static_cast<__u8>(kind), .stream = stream, .event = event};
}

/// The slots of an MPI call that moves data; `comm` is the last argument, except for a request, statuses and the like.
struct MpiSlots {
  __u8 count = 0, datatype = 0, root = 0, peer = 0, comm = 0;
};

constexpr __u8 beyond_registers(__u8 last) { return last > 6 ? static_cast<__u8>(last - 6) : 0; }

constexpr Call mpi(std::string_view symbol, Operation operation, MpiSlots slots) {
  return {symbol,
          kCollective,
          {.kind = ST_CALL_DATA,
           .operation = op(operation),
           .library = kMpi,
           .count = slots.count,
           .root = slots.root,
           .peer = slots.peer,
           .comm = slots.comm,
           .stack_arguments = beyond_registers(slots.comm),
           .blocking = 1,
           .mpi_datatype = slots.datatype}};
}

/// The same for the asynchronous call: the request follows the communicator.
constexpr Call mpi_begin(std::string_view symbol, Operation operation, MpiSlots slots) {
  Call call = mpi(symbol, operation, slots);
  call.spec.blocking = 0;
  call.spec.request = static_cast<__u8>(slots.comm + 1);
  call.spec.stack_arguments = beyond_registers(call.spec.request);
  return call;
}

/// The slots of a call that waits for requests, or asks whether they are done.
struct WaitSlots {
  __u8 count = 0, request = 0, index = 0, done = 0, indices = 0;
};

constexpr Call mpi_wait(std::string_view symbol, st_call_kind kind, WaitSlots slots) {
  return {symbol,
          kCollective,
          {.kind = static_cast<__u8>(kind),
           .library = kMpi,
           .count = slots.count,
           .out = slots.index,
           .request = slots.request,
           .done = slots.done,
           .indices = slots.indices}};
}

/// Offsets of the fields of a Gloo call's options; `count` or, where the struct has none, the `buffer` from which it
/// can be derived.
struct GlooOffsets {
  __u8 count = 0, buffer = 0, element_bytes = 0, root = 0, tag = 0;
};

constexpr Call gloo(std::string_view symbol, Operation operation, GlooOffsets offsets) {
  return {symbol,
          kCollective,
          {.kind = ST_CALL_DATA,
           .operation = op(operation),
           .library = kGloo,
           .blocking = 1,
           .entry_only = 1,
           .options = 1,
           .option_count = offsets.count,
           .option_element_bytes = offsets.element_bytes,
           .option_root = offsets.root,
           .option_tag = offsets.tag,
           .option_buffer = offsets.buffer}};
}

constexpr Call gloo_init(std::string_view symbol) {
  return {symbol,
          kCollective,
          {.kind = ST_CALL_COMM_INIT,
           .operation = op(Operation::kCommInitRank),
           .library = kGloo,
           .comm = 1,
           .entry_only = 1}};
}

/// A framework function whose entry reveals the state of calls that the framework made.
constexpr Call framework(std::string_view symbol, st_call_kind kind) {
  return {symbol, CallFamily::kFramework, {.kind = static_cast<__u8>(kind), .library = kGloo, .entry_only = 1}};
}

// Left out: ncclCommGetAsyncError, cudaEventQuery, cudaStreamQuery, MPI_Iprobe. Programs poll them, and a trap on each
// poll would be expensive. MPI_Test and its family are polled too, but nothing else shows that a request is done: the
// kernel side drops polls that found nothing.
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
    // RCCL's own all-to-all; older than NCCL's, with the signature that NCCL adopted later.
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
    // MPI (mpi.h of OpenMPI and MPICH; MPI 3.1). Counts in arrays (the v-variants) stay unknown.
    mpi("MPI_Allreduce", Operation::kAllReduce, {.count = 3, .datatype = 4, .comm = 6}),
    mpi("MPI_Reduce", Operation::kReduce, {.count = 3, .datatype = 4, .root = 6, .comm = 7}),
    mpi("MPI_Bcast", Operation::kBroadcast, {.count = 2, .datatype = 3, .root = 4, .comm = 5}),
    mpi("MPI_Allgather", Operation::kAllGather, {.count = 2, .datatype = 3, .comm = 7}),
    mpi("MPI_Allgatherv", Operation::kAllGather, {.count = 2, .datatype = 3, .comm = 8}),
    mpi("MPI_Gather", Operation::kGather, {.count = 2, .datatype = 3, .root = 7, .comm = 8}),
    mpi("MPI_Gatherv", Operation::kGather, {.count = 2, .datatype = 3, .root = 8, .comm = 9}),
    mpi("MPI_Scatter", Operation::kScatter, {.count = 5, .datatype = 6, .root = 7, .comm = 8}),
    mpi("MPI_Scatterv", Operation::kScatter, {.count = 6, .datatype = 7, .root = 8, .comm = 9}),
    mpi("MPI_Alltoall", Operation::kAllToAll, {.count = 2, .datatype = 3, .comm = 7}),
    mpi("MPI_Alltoallv", Operation::kAllToAll, {.comm = 9}),
    mpi("MPI_Reduce_scatter", Operation::kReduceScatter, {.comm = 6}),
    mpi("MPI_Reduce_scatter_block", Operation::kReduceScatter, {.count = 3, .datatype = 4, .comm = 6}),
    mpi("MPI_Barrier", Operation::kBarrier, {.comm = 1}),
    mpi("MPI_Send", Operation::kSend, {.count = 2, .datatype = 3, .peer = 4, .comm = 6}),
    mpi("MPI_Ssend", Operation::kSend, {.count = 2, .datatype = 3, .peer = 4, .comm = 6}),
    mpi("MPI_Rsend", Operation::kSend, {.count = 2, .datatype = 3, .peer = 4, .comm = 6}),
    mpi("MPI_Bsend", Operation::kSend, {.count = 2, .datatype = 3, .peer = 4, .comm = 6}),
    mpi("MPI_Recv", Operation::kRecv, {.count = 2, .datatype = 3, .peer = 4, .comm = 6}),
    mpi("MPI_Sendrecv", Operation::kSend, {.count = 2, .datatype = 3, .peer = 4, .comm = 11}),
    mpi_begin("MPI_Iallreduce", Operation::kAllReduce, {.count = 3, .datatype = 4, .comm = 6}),
    mpi_begin("MPI_Ireduce", Operation::kReduce, {.count = 3, .datatype = 4, .root = 6, .comm = 7}),
    mpi_begin("MPI_Ibcast", Operation::kBroadcast, {.count = 2, .datatype = 3, .root = 4, .comm = 5}),
    mpi_begin("MPI_Iallgather", Operation::kAllGather, {.count = 2, .datatype = 3, .comm = 7}),
    mpi_begin("MPI_Igather", Operation::kGather, {.count = 2, .datatype = 3, .root = 7, .comm = 8}),
    mpi_begin("MPI_Iscatter", Operation::kScatter, {.count = 5, .datatype = 6, .root = 7, .comm = 8}),
    mpi_begin("MPI_Ialltoall", Operation::kAllToAll, {.count = 2, .datatype = 3, .comm = 7}),
    mpi_begin("MPI_Ireduce_scatter_block", Operation::kReduceScatter, {.count = 3, .datatype = 4, .comm = 6}),
    mpi_begin("MPI_Ibarrier", Operation::kBarrier, {.comm = 1}),
    mpi_begin("MPI_Isend", Operation::kSend, {.count = 2, .datatype = 3, .peer = 4, .comm = 6}),
    mpi_begin("MPI_Issend", Operation::kSend, {.count = 2, .datatype = 3, .peer = 4, .comm = 6}),
    mpi_begin("MPI_Irecv", Operation::kRecv, {.count = 2, .datatype = 3, .peer = 4, .comm = 6}),
    mpi_wait("MPI_Wait", ST_CALL_WAIT_REQUEST, {.request = 1}),
    mpi_wait("MPI_Waitall", ST_CALL_WAIT_ALL_REQUESTS, {.count = 1, .request = 2}),
    mpi_wait("MPI_Waitany", ST_CALL_WAIT_ANY_REQUEST, {.count = 1, .request = 2, .index = 3}),
    mpi_wait("MPI_Waitsome", ST_CALL_WAIT_SOME_REQUESTS, {.count = 1, .request = 2, .done = 3, .indices = 4}),
    mpi_wait("MPI_Test", ST_CALL_WAIT_REQUEST, {.request = 1, .done = 2}),
    mpi_wait("MPI_Testall", ST_CALL_WAIT_ALL_REQUESTS, {.count = 1, .request = 2, .done = 3}),
    mpi_wait("MPI_Testany", ST_CALL_WAIT_ANY_REQUEST, {.count = 1, .request = 2, .index = 3, .done = 4}),
    mpi_wait("MPI_Testsome", ST_CALL_WAIT_SOME_REQUESTS, {.count = 1, .request = 2, .done = 3, .indices = 4}),
    Call{"MPI_Comm_rank", kCollective, {.kind = ST_CALL_COMM_QUERY_RANK, .library = kMpi, .comm = 1, .out = 2}},
    Call{"MPI_Comm_size", kCollective, {.kind = ST_CALL_COMM_QUERY_COUNT, .library = kMpi, .comm = 1, .out = 2}},
    Call{"MPI_Comm_split", kCollective,
         {.kind = ST_CALL_COMM_SPLIT, .operation = op(Operation::kCommSplit), .library = kMpi, .comm = 1, .new_comm = 4,
          .color = 2, .key = 3}},
    Call{"MPI_Comm_dup", kCollective,
         {.kind = ST_CALL_COMM_SPLIT, .operation = op(Operation::kCommSplit), .library = kMpi, .comm = 1,
          .new_comm = 2}},
    Call{"MPI_Init", kCollective,
         {.kind = ST_CALL_WORLD_INIT, .operation = op(Operation::kCommInitRank), .library = kMpi}},
    Call{"MPI_Init_thread", kCollective,
         {.kind = ST_CALL_WORLD_INIT, .operation = op(Operation::kCommInitRank), .library = kMpi}},
    Call{"MPI_Finalize", kCollective,
         {.kind = ST_CALL_WORLD_END, .operation = op(Operation::kCommDestroy), .library = kMpi}},
    // Gloo, by mangled names: gloo::allreduce(AllreduceOptions const&); the others take a non-const reference.
    gloo("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE", Operation::kAllReduce,
         {.count = 80, .element_bytes = 88, .tag = 128}),
    gloo("_ZN4gloo9broadcastERNS_16BroadcastOptionsE", Operation::kBroadcast,
         {.count = 32, .element_bytes = 40, .root = 48, .tag = 52}),
    gloo("_ZN4gloo6reduceERNS_13ReduceOptionsE", Operation::kReduce,
         {.count = 32, .element_bytes = 40, .root = 48, .tag = 88}),
    gloo("_ZN4gloo9allgatherERNS_16AllgatherOptionsE", Operation::kAllGather,
         {.buffer = 16, .element_bytes = 32, .tag = 40}),
    gloo("_ZN4gloo6gatherERNS_13GatherOptionsE", Operation::kGather,
         {.buffer = 16, .element_bytes = 32, .root = 40, .tag = 44}),
    gloo("_ZN4gloo7scatterERNS_14ScatterOptionsE", Operation::kScatter,
         {.buffer = 40, .element_bytes = 48, .root = 56, .tag = 60}),
    gloo("_ZN4gloo8alltoallERNS_15AlltoallOptionsE", Operation::kAllToAll,
         {.buffer = 16, .element_bytes = 32, .tag = 40}),
    gloo("_ZN4gloo7barrierERNS_14BarrierOptionsE", Operation::kBarrier, {.tag = 24}),
    // gloo::rendezvous::Context::connectFullMesh: the signature until 2023, and the one since.
    gloo_init("_ZN4gloo10rendezvous7Context15connectFullMeshERNS0_5StoreERSt10shared_ptrINS_9transport6DeviceEE"),
    gloo_init("_ZN4gloo10rendezvous7Context15connectFullMeshESt10shared_ptrINS0_5StoreEERS2_INS_9transport6DeviceEE"),
    // c10d::ProcessGroupGloo: AsyncWork::finishWorkGloo and finishWorkGlooError, which its workers call after each
    // collective, and runLoop, which workers start with once all contexts are connected.
    framework("_ZN4c10d16ProcessGroupGloo9AsyncWork14finishWorkGlooEv", ST_CALL_FINISHED),
    framework("_ZN4c10d16ProcessGroupGloo9AsyncWork19finishWorkGlooErrorENSt15__exception_ptr13exception_ptrE",
              ST_CALL_FAILED),
    framework("_ZN4c10d16ProcessGroupGloo9AsyncWork19finishWorkGlooErrorERKNSt15__exception_ptr13exception_ptrE",
              ST_CALL_FAILED),
    framework("_ZN4c10d16ProcessGroupGloo7runLoopEi", ST_CALL_SET_UP),
    // CUDA runtime. The _ptsz names belong to the per-thread default stream.
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
    Call{"cudaStreamBeginCapture", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cudaStreamBeginCapture_ptsz", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cudaStreamBeginCaptureToGraph", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cudaStreamBeginCaptureToGraph_ptsz", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cudaStreamEndCapture", kGpu, sync(ST_CALL_END_CAPTURE, 1, 0)},
    Call{"cudaStreamEndCapture_ptsz", kGpu, sync(ST_CALL_END_CAPTURE, 1, 0)},
    Call{"cudaGraphLaunch", kGpu, sync(ST_CALL_GRAPH_LAUNCH, 2, 0)},
    Call{"cudaGraphLaunch_ptsz", kGpu, sync(ST_CALL_GRAPH_LAUNCH, 2, 0)},
    // CUDA driver. The runtime's calls call these: such a call is inside of one in flight, and has no record of its own.
    Call{"cuStreamSynchronize", kGpu, sync(ST_CALL_SYNC_STREAM, 1, 0)},
    Call{"cuStreamSynchronize_ptsz", kGpu, sync(ST_CALL_SYNC_STREAM, 1, 0)},
    Call{"cuCtxSynchronize", kGpu, sync(ST_CALL_SYNC_DEVICE, 0, 0)},
    Call{"cuEventSynchronize", kGpu, sync(ST_CALL_SYNC_EVENT, 0, 1)},
    Call{"cuEventRecord", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cuEventRecord_ptsz", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cuEventRecordWithFlags", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cuEventRecordWithFlags_ptsz", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"cuStreamWaitEvent", kGpu, sync(ST_CALL_STREAM_WAIT_EVENT, 1, 2)},
    Call{"cuStreamWaitEvent_ptsz", kGpu, sync(ST_CALL_STREAM_WAIT_EVENT, 1, 2)},
    Call{"cuStreamBeginCapture", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cuStreamBeginCapture_ptsz", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cuStreamBeginCapture_v2", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cuStreamBeginCapture_v2_ptsz", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cuStreamBeginCaptureToGraph", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cuStreamBeginCaptureToGraph_ptsz", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"cuStreamEndCapture", kGpu, sync(ST_CALL_END_CAPTURE, 1, 0)},
    Call{"cuStreamEndCapture_ptsz", kGpu, sync(ST_CALL_END_CAPTURE, 1, 0)},
    Call{"cuGraphLaunch", kGpu, sync(ST_CALL_GRAPH_LAUNCH, 2, 0)},
    Call{"cuGraphLaunch_ptsz", kGpu, sync(ST_CALL_GRAPH_LAUNCH, 2, 0)},
    // HIP, for RCCL. The _spt names belong to the per-thread default stream.
    Call{"hipStreamSynchronize", kGpu, sync(ST_CALL_SYNC_STREAM, 1, 0)},
    Call{"hipStreamSynchronize_spt", kGpu, sync(ST_CALL_SYNC_STREAM, 1, 0)},
    Call{"hipDeviceSynchronize", kGpu, sync(ST_CALL_SYNC_DEVICE, 0, 0)},
    Call{"hipEventSynchronize", kGpu, sync(ST_CALL_SYNC_EVENT, 0, 1)},
    Call{"hipEventRecord", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"hipEventRecord_spt", kGpu, sync(ST_CALL_EVENT_RECORD, 2, 1)},
    Call{"hipStreamWaitEvent", kGpu, sync(ST_CALL_STREAM_WAIT_EVENT, 1, 2)},
    Call{"hipStreamWaitEvent_spt", kGpu, sync(ST_CALL_STREAM_WAIT_EVENT, 1, 2)},
    Call{"hipStreamBeginCapture", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"hipStreamBeginCapture_spt", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"hipStreamBeginCaptureToGraph", kGpu, sync(ST_CALL_BEGIN_CAPTURE, 1, 0)},
    Call{"hipStreamEndCapture", kGpu, sync(ST_CALL_END_CAPTURE, 1, 0)},
    Call{"hipStreamEndCapture_spt", kGpu, sync(ST_CALL_END_CAPTURE, 1, 0)},
    Call{"hipGraphLaunch", kGpu, sync(ST_CALL_GRAPH_LAUNCH, 2, 0)},
    Call{"hipGraphLaunch_spt", kGpu, sync(ST_CALL_GRAPH_LAUNCH, 2, 0)},
};
// clang-format on
static_assert(kCalls.size() <= ST_MAX_CALLS);

}  // namespace

static_assert(static_cast<int>(Library::kNccl) == ST_LIBRARY_NCCL &&
              static_cast<int>(Library::kRccl) == ST_LIBRARY_RCCL);

std::span<const Call> call_table() { return kCalls; }

}  // namespace stalltrace::capture
