// SPDX-License-Identifier: Apache-2.0
// ncclProfiler_v6: NCCL 2.29 and 2.30. Collectives done by the GPU's copy engines (CE) are events.
#pragma once

#include "plugin/abi/parts.h"

namespace stalltrace::nccl::v6 {

struct CeColl {
  uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  const char* datatype;
  const char* sync_strategy;
  bool intra_batch_sync;
  uint32_t batch_size;
  uint32_t batches;
  uint32_t ce_sequence;
  void* stream;
};

struct CeSync {
  bool is_complete;
  int ranks;
};

struct CeBatch {
  int operations;
  size_t total_bytes;
  bool use_intra_sync;
};

struct Descriptor {
  uint64_t type;
  void* parent;
  int rank;
  union {
    GroupApi group_api;
    CollApi coll_api;
    P2pApi p2p_api;
    KernelLaunch kernel_launch;
    CollV5 coll;
    P2pV5 p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    KernelChV4 kernel_ch;
    NetPlugin net_plugin;
    CeColl ce_coll;
    CeSync ce_sync;
    CeBatch ce_batch;
  };
};

using StateArguments = StateArgumentsV4;
using Profiler = nccl::Profiler<InitV5, Descriptor, StateArguments>;

}  // namespace stalltrace::nccl::v6
