// SPDX-License-Identifier: Apache-2.0
// ncclProfiler_v4: NCCL 2.27. init gets the communicator's name, its size and the rank, which events no longer have.
#pragma once

#include "plugin/abi/parts.h"

namespace stalltrace::nccl::v4 {

struct Descriptor {
  uint8_t type;
  void* parent;  // of a Coll or P2p: the Group
  int rank;
  union {
    CollV4 coll;
    P2pV4 p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    KernelChV4 kernel_ch;
    NetPlugin net_plugin;
  };
};

using StateArguments = StateArgumentsV4;
using Profiler = nccl::Profiler<InitV4, Descriptor, StateArguments>;

}  // namespace stalltrace::nccl::v4
