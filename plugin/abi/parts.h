// SPDX-License-Identifier: Apache-2.0
// Parts of event descriptors that several versions of NCCL's profiler interface share. Every field is NCCL's; pointers
// to text point into NCCL and stay valid while it is loaded.
#pragma once

#include "plugin/abi/events.h"

namespace stalltrace::nccl {

/// parentObj: the handle that startEvent returned for the Coll or P2p in the process `pid`, which is another process
/// when a rank's data goes through a neighbour's network card (PXN).
struct ProxyOp {
  pid_t pid;
  uint8_t channel;
  int peer;
  int steps;
  int chunk_bytes;
  int is_send;
};

struct ProxyStep {
  int step;
};

struct NetPlugin {
  int64_t id;  // abi/net_events.h
  void* data;
};

struct KernelChV3 {
  uint8_t channel;
};

struct KernelChV4 {
  uint8_t channel;
  uint64_t gpu_timer_ns;  // the GPU's global timer at the start
};

struct P2pV2 {
  const char* name;
  uint64_t comm_hash;
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};

/// v4; v5 and v6 append the group.
struct CollV4 {
  uint64_t sequence;  // counted per function and communicator
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

struct P2pV4 {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
};

struct CollV5 {
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
  void* parent_group;
};

struct P2pV5 {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;
};

struct GroupApi {
  bool graph_captured;
  int depth;
};

struct CollApi {
  const char* function;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool graph_captured;
};

struct P2pApi {
  const char* function;
  size_t count;
  const char* datatype;
  void* stream;
  bool graph_captured;
};

struct KernelLaunch {
  void* stream;
};

struct ProxyCtrlState {
  int appended_ops;
};

/// Arguments of the states 0 to 7 of v1 to v3.
struct ProxyOpState {
  size_t transferred_bytes;
  int steps;
};

struct ProxyStepState {
  size_t transferred_bytes;
};

struct NetPluginState {
  void* data;
};

struct KernelChState {
  uint64_t gpu_timer_ns;  // the GPU's global timer at the stop
};

/// v1 to v3.
union StateArgumentsV1 {
  ProxyOpState proxy_op;
  ProxyCtrlState proxy_ctrl;
};

/// v4 to v6.
union StateArgumentsV4 {
  ProxyStepState proxy_step;
  ProxyCtrlState proxy_ctrl;
  NetPluginState net_plugin;
  KernelChState kernel_ch;
};

}  // namespace stalltrace::nccl
