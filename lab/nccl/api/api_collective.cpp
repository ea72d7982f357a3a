// SPDX-License-Identifier: Apache-2.0
// The exported collective and point-to-point functions. ncclBcast and the all-to-all family consist of other public
// functions, which they call by their public symbols.
#include "api.h"
#include "comm.h"
#include "group.h"
#include "reduce.h"
#include "result.h"

using namespace lab::nccl;

namespace {

ncclResult_t call(const char* name, const Operation& operation) {
  return guarded(name, [&] { return enqueue(name, operation); });
}

/// Validates the arguments that a call made of sends and receives needs for counting in bytes and ranks.
ncclResult_t check_composed(const char* name, ncclComm_t comm, ncclDataType_t datatype, int root) {
  NCCL_TRY(check_comm(comm, name));
  if (element_bytes(datatype) == 0) {
    NCCL_WARN("%s : invalid type %d", name, datatype);
    return ncclInvalidArgument;
  }
  if (root < 0 || root >= comm->nranks) {
    NCCL_WARN("%s : invalid root %d (root should be in the 0..%d range)", name, root, comm->nranks);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

const void* part(const void* base, int index, size_t bytes) {
  return static_cast<const std::byte*>(base) + static_cast<size_t>(index) * bytes;
}

void* part(void* base, int index, size_t bytes) {
  return static_cast<std::byte*>(base) + static_cast<size_t>(index) * bytes;
}

}  // namespace

NCCL_API(ncclResult_t, ncclAllReduce,
         (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
          cudaStream_t stream)) {
  return call("AllReduce", {.function = Function::kAllReduce,
                            .send = sendbuff,
                            .recv = recvbuff,
                            .count = count,
                            .type = datatype,
                            .op = op,
                            .comm = comm,
                            .stream = stream});
}

NCCL_API(ncclResult_t, ncclReduceScatter,
         (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
          ncclComm_t comm, cudaStream_t stream)) {
  return call("ReduceScatter", {.function = Function::kReduceScatter,
                                .send = sendbuff,
                                .recv = recvbuff,
                                .count = recvcount,
                                .type = datatype,
                                .op = op,
                                .comm = comm,
                                .stream = stream});
}

NCCL_API(ncclResult_t, ncclReduce,
         (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
          ncclComm_t comm, cudaStream_t stream)) {
  return call("Reduce", {.function = Function::kReduce,
                         .send = sendbuff,
                         .recv = recvbuff,
                         .count = count,
                         .type = datatype,
                         .op = op,
                         .root = root,
                         .comm = comm,
                         .stream = stream});
}

NCCL_API(ncclResult_t, ncclAllGather,
         (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
          cudaStream_t stream)) {
  return call("AllGather", {.function = Function::kAllGather,
                            .send = sendbuff,
                            .recv = recvbuff,
                            .count = sendcount,
                            .type = datatype,
                            .comm = comm,
                            .stream = stream});
}

NCCL_API(ncclResult_t, ncclBroadcast,
         (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
          cudaStream_t stream)) {
  return call("Broadcast", {.function = Function::kBroadcast,
                            .send = sendbuff,
                            .recv = recvbuff,
                            .count = count,
                            .type = datatype,
                            .root = root,
                            .comm = comm,
                            .stream = stream});
}

NCCL_API(ncclResult_t, ncclBcast,
         (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclSend,
         (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
          cudaStream_t stream)) {
  return call("Send", {.function = Function::kSend,
                       .send = sendbuff,
                       .count = count,
                       .type = datatype,
                       .root = peer,
                       .comm = comm,
                       .stream = stream});
}

NCCL_API(ncclResult_t, ncclRecv,
         (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) {
  return call("Recv", {.function = Function::kRecv,
                       .recv = recvbuff,
                       .count = count,
                       .type = datatype,
                       .root = peer,
                       .comm = comm,
                       .stream = stream});
}

NCCL_API(ncclResult_t, ncclAlltoAll,
         (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
          cudaStream_t stream)) {
  NCCL_TRY(check_composed("AlltoAll", comm, datatype, 0));
  const size_t bytes = count * element_bytes(datatype);
  NCCL_TRY(ncclGroupStart());
  for (int peer = 0; peer < comm->nranks; ++peer) {
    ncclSend(part(sendbuff, peer, bytes), count, datatype, peer, comm, stream);
    ncclRecv(part(recvbuff, peer, bytes), count, datatype, peer, comm, stream);
  }
  return ncclGroupEnd();
}

NCCL_API(ncclResult_t, ncclGather,
         (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
          cudaStream_t stream)) {
  NCCL_TRY(check_composed("Gather", comm, datatype, root));
  const size_t bytes = count * element_bytes(datatype);
  NCCL_TRY(ncclGroupStart());
  ncclSend(sendbuff, count, datatype, root, comm, stream);
  for (int peer = 0; comm->rank == root && peer < comm->nranks; ++peer) {
    ncclRecv(part(recvbuff, peer, bytes), count, datatype, peer, comm, stream);
  }
  return ncclGroupEnd();
}

NCCL_API(ncclResult_t, ncclScatter,
         (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
          cudaStream_t stream)) {
  NCCL_TRY(check_composed("Scatter", comm, datatype, root));
  const size_t bytes = count * element_bytes(datatype);
  NCCL_TRY(ncclGroupStart());
  for (int peer = 0; comm->rank == root && peer < comm->nranks; ++peer) {
    ncclSend(part(sendbuff, peer, bytes), count, datatype, peer, comm, stream);
  }
  ncclRecv(recvbuff, count, datatype, root, comm, stream);
  return ncclGroupEnd();
}
