// SPDX-License-Identifier: Apache-2.0
// ncclProfiler_v3: NCCL 2.26. Adds kernel channels and network plugins.
#pragma once

#include "plugin/abi/parts.h"

namespace stalltrace::nccl::v3 {

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
    KernelChV3 kernel_ch;
    NetPlugin net_plugin;
  };
};

using StateArguments = StateArgumentsV1;
using Profiler = nccl::Profiler<InitV1, Descriptor, StateArguments>;

}  // namespace stalltrace::nccl::v3
