// SPDX-License-Identifier: Apache-2.0
// One API call with its arguments as the caller passed them.
#pragma once

#include <cstddef>

#include "nccl.h"

namespace lab::nccl {

enum class Function {
  kConnect,  // not a call: sends one byte around the ring, so that an unusable ring fails at initialisation
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kSend,
  kRecv,
};
inline constexpr size_t kFunctions = static_cast<size_t>(Function::kRecv) + 1;

/// The handles of an operation's events at the profiler plugin; empty without one.
struct TaskProfile {
  int mask = 0;               // the events it wanted when the operation was called
  void* group_api = nullptr;  // handles of the plugin
  void* api = nullptr;
  void* task = nullptr;
};

struct Operation {
  Function function = Function::kConnect;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;  // or the peer
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  TaskProfile profile;

  [[nodiscard]] bool is_point_to_point() const { return function == Function::kSend || function == Function::kRecv; }
  [[nodiscard]] bool reduces() const {
    return function == Function::kAllReduce || function == Function::kReduceScatter || function == Function::kReduce;
  }
};

}  // namespace lab::nccl
