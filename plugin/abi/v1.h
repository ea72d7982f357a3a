// SPDX-License-Identifier: Apache-2.0
// ncclProfiler_v1: NCCL 2.23. Function, datatype, algorithm and protocol are NCCL's own numbers.
#pragma once

#include "plugin/abi/parts.h"

namespace stalltrace::nccl::v1 {

struct Coll {
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  uint8_t function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t reduce_op;
  size_t traffic_bytes;
  uint8_t channels;
  uint8_t warps;
  uint8_t algorithm;
  uint8_t protocol;
  int is_collnet;
  int is_nvls;
};

struct P2p {
  const char* name;
  uint64_t comm_hash;
  uint8_t function;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int peer;
};

struct Descriptor {
  uint8_t type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
  };
};

using StateArguments = StateArgumentsV1;
using Profiler = nccl::Profiler<InitV1, Descriptor, StateArguments>;

}  // namespace stalltrace::nccl::v1
