// SPDX-License-Identifier: Apache-2.0
// ncclProfiler_v5: NCCL 2.28. API calls are events, and parents of the events that they start.
#pragma once

#include "plugin/abi/parts.h"

namespace stalltrace::nccl::v5 {

struct Descriptor {
  uint64_t type;
  void* parent;  // of a Coll or P2p: the CollApi or P2pApi
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
  };
};

using StateArguments = StateArgumentsV4;
using Profiler = nccl::Profiler<InitV5, Descriptor, StateArguments>;

}  // namespace stalltrace::nccl::v5
