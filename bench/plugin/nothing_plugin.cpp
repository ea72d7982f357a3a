// SPDX-License-Identifier: Apache-2.0
// A profiler plugin that requests the same events as ours and ignores them: shows NCCL's own cost of reporting.
#include "plugin/abi/profiler.h"

namespace {

using namespace stalltrace::nccl;

constexpr int kMask = kEventColl | kEventP2p | kEventProxyOp | kEventProxyStep | kEventKernelCh | kEventCollApi |
                      kEventP2pApi | kEventGroupApi | kEventCeColl;
int nothing = 0;

int prepare(void** context, int* mask) {
  *context = &nothing;
  *mask = kMask;
  return kSuccess;
}

int init_v4(void** context, int* mask, const char*, uint64_t, int, int, int, Logger) { return prepare(context, mask); }

int init_v5(void** context, uint64_t, int* mask, const char*, int, int, int, Logger) { return prepare(context, mask); }

template <typename Descriptor>
int start_event(void*, void** handle, Descriptor*) {
  *handle = &nothing;
  return kSuccess;
}

int stop_event(void*) { return kSuccess; }

template <typename StateArguments>
int record_state(void*, int, StateArguments*) {
  return kSuccess;
}

int finalize(void*) { return kSuccess; }

}  // namespace

extern "C" {
v4::Profiler ncclProfiler_v4 = {
    "nothing", init_v4, start_event<v4::Descriptor>, stop_event, record_state<v4::StateArguments>, finalize};
v5::Profiler ncclProfiler_v5 = {
    "nothing", init_v5, start_event<v5::Descriptor>, stop_event, record_state<v5::StateArguments>, finalize};
v6::Profiler ncclProfiler_v6 = {
    "nothing", init_v5, start_event<v6::Descriptor>, stop_event, record_state<v6::StateArguments>, finalize};
}
