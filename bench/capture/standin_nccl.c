// SPDX-License-Identifier: Apache-2.0
// ncclAllReduce with NCCL's signature that returns at once: a call of it costs what its probes cost.
#include <stddef.h>

int ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, int datatype, int op, void* comm, void* stream) {
  // Something to return that a compiler cannot know, so that the call stays one.
  return (int)(((size_t)sendbuff ^ (size_t)recvbuff ^ count ^ (size_t)datatype ^ (size_t)op ^ (size_t)comm ^
                (size_t)stream) >>
               63);
}
