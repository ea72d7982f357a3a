// SPDX-License-Identifier: Apache-2.0
// ncclAllReduce with NCCL's signature that returns at once: its calls cost only their probes.
#include <stddef.h>

int ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, int datatype, int op, void* comm, void* stream) {
  // The compiler cannot predict this result, so it keeps the call.
  return (int)(((size_t)sendbuff ^ (size_t)recvbuff ^ count ^ (size_t)datatype ^ (size_t)op ^ (size_t)comm ^
                (size_t)stream) >>
               63);
}
