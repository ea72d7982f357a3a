// SPDX-License-Identifier: Apache-2.0
// ncclProfiler_v2: NCCL 2.24 and 2.25. Text replaces numbers.
#pragma once

#include "plugin/abi/parts.h"

namespace stalltrace::nccl::v2 {

struct Coll {
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic_bytes;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

struct Descriptor {
  uint8_t type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2pV2 p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
  };
};

using StateArguments = StateArgumentsV1;
using Profiler = nccl::Profiler<InitV1, Descriptor, StateArguments>;

}  // namespace stalltrace::nccl::v2
