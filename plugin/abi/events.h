// SPDX-License-Identifier: Apache-2.0
// The vocabulary of NCCL's profiler interface: event bits, states, and the functions that are the same in every
// version. Written from the interface that NCCL 2.23 to 2.30 calls (ncclProfiler_v1 to _v6); layout_test.cpp asserts
// every number.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace stalltrace::nccl {

/// Types of events: the bits of the activation mask, and `type` of a descriptor.
enum EventType : uint32_t {
  kEventGroup = 1U << 0,
  kEventColl = 1U << 1,
  kEventP2p = 1U << 2,
  kEventProxyOp = 1U << 3,
  kEventProxyStep = 1U << 4,
  kEventProxyCtrl = 1U << 5,
  kEventKernelCh = 1U << 6,   // v3
  kEventNetPlugin = 1U << 7,  // v3
  kEventGroupApi = 1U << 8,   // v5, and the three below
  kEventCollApi = 1U << 9,
  kEventP2pApi = 1U << 10,
  kEventKernelLaunch = 1U << 11,
  kEventCeColl = 1U << 12,  // v6, and the two below
  kEventCeSync = 1U << 13,
  kEventCeBatch = 1U << 14,
};

/// The states of recordEventState. A proxy step's state says what the step begins to wait for.
enum EventState : int {
  kStateSendPosted = 0,  // v1 to v3: a proxy operation's progress, with transSize and steps; 0 to 7
  kStateSendRemFifoWait = 1,
  kStateSendTransmitted = 2,
  kStateSendDone = 3,
  kStateRecvPosted = 4,
  kStateRecvReceived = 5,
  kStateRecvTransmitted = 6,
  kStateRecvDone = 7,
  kStateSendGpuWait = 8,     // the GPU has not produced the data
  kStateSendWait = 9,        // handed to the network, not acknowledged
  kStateRecvWait = 10,       // nothing has arrived
  kStateRecvFlushWait = 11,  // arrived, not yet visible to the GPU
  kStateRecvGpuWait = 12,    // the GPU has not taken the data
  kStateCtrlIdle = 13,
  kStateCtrlActive = 14,
  kStateCtrlSleep = 15,
  kStateCtrlWakeup = 16,
  kStateCtrlAppend = 17,
  kStateCtrlAppendEnd = 18,
  kStateOpInProgress = 19,  // v4
  kStateSendPeerWait = 20,  // v4: the receiver has not announced where to put the data
  kStateNetPluginUpdate = 21,
  kStateKernelChStop = 22,
  kStateGroupStartApiStop = 23,  // v5
  kStateGroupEndApiStart = 24,
  kStateCeCollStart = 25,  // v6; defined, but not sent by NCCL 2.29 and 2.30
  kStateCeCollComplete = 26,
  kStateCeSyncStart = 27,
  kStateCeSyncComplete = 28,
  kStateCeBatchStart = 29,
  kStateCeBatchComplete = 30,
};

/// ncclResult_t of every function below; NCCL unloads a profiler whose init returns anything else.
inline constexpr int kSuccess = 0;

/// NCCL's logger, passed to init from v4 on. Level and subsystem are ncclDebugLogLevel and ncclDebugLogSubSys.
using Logger = void (*)(int level, unsigned long subsystem, const char* file, int line, const char* format, ...);
inline constexpr int kLogWarn = 2;
inline constexpr int kLogInfo = 3;
inline constexpr unsigned long kSubsystemInit = 1;

using InitV1 = int (*)(void** context, int* mask);  // v1 to v3
using InitV4 = int (*)(void** context, int* mask, const char* comm_name, uint64_t comm_hash, int nodes, int ranks,
                       int rank, Logger logger);
using InitV5 = int (*)(void** context, uint64_t comm_hash, int* mask, const char* comm_name, int nodes, int ranks,
                       int rank,
                       Logger logger);  // v5 and v6

/// The struct that a plugin exports as ncclProfiler_vN.
template <typename Init, typename Descriptor, typename StateArguments>
struct Profiler {
  const char* name;
  Init init;
  int (*start_event)(void* context, void** handle, Descriptor* descriptor);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};

}  // namespace stalltrace::nccl
