// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <type_traits>

#include "plugin/abi/v4.h"
#include "plugin/abi/v5.h"

namespace abi = stalltrace::nccl;

namespace {

using lab::test::Call;
using lab::test::Entry;

struct Context {
  int rank;
  uint64_t hash;
};

struct Memory {
  std::mutex mutex;
  int mask = 0;
  int result = 0;
  std::vector<Entry> entries;
  std::vector<std::unique_ptr<char>> handles;  // distinct addresses
  std::vector<std::unique_ptr<Context>> contexts;
};
Memory memory;

void remember(Entry entry) {
  entry.time_ns = std::chrono::steady_clock::now().time_since_epoch().count();
  entry.thread = pthread_self();
  memory.entries.push_back(std::move(entry));
}

std::string text(const char* from) { return from == nullptr ? "" : from; }

int init(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank, abi::Logger log) {
  const std::lock_guard lock(memory.mutex);
  log(abi::kLogInfo, abi::kSubsystemInit, __func__, __LINE__, "recorder: rank %d", rank);
  __atomic_store_n(mask, memory.mask, __ATOMIC_RELAXED);
  *context = memory.contexts.emplace_back(std::make_unique<Context>(rank, hash)).get();
  remember(
      {.call = Call::kInit, .rank = rank, .comm_hash = hash, .nodes = nodes, .ranks = ranks, .comm_name = text(name)});
  return memory.result;
}

/// Adds the fields of version 5.
[[maybe_unused]] void describe_new(const abi::v5::Descriptor& event, Entry& entry) {
  if (event.type == abi::kEventGroupApi) {
    entry.depth = event.group_api.depth;
  } else if (event.type == abi::kEventCollApi) {
    entry.function = event.coll_api.function;
    entry.count = event.coll_api.count;
    entry.datatype = event.coll_api.datatype;
  } else if (event.type == abi::kEventP2pApi) {
    entry.function = event.p2p_api.function;
    entry.count = event.p2p_api.count;
  } else if (event.type == abi::kEventColl) {
    entry.group = event.coll.parent_group;
  } else if (event.type == abi::kEventP2p) {
    entry.group = event.p2p.parent_group;
  }
}

template <typename Descriptor>
int start_event(void* context, void** handle, Descriptor* event) {
  const std::lock_guard lock(memory.mutex);
  *handle = memory.handles.emplace_back(std::make_unique<char>()).get();
  const auto* own = static_cast<Context*>(context);
  Entry entry{.call = Call::kStart,
              .rank = own->rank,
              .comm_hash = own->hash,
              .handle = *handle,
              .parent = event->parent,
              .type = event->type};
  switch (event->type) {
    case abi::kEventColl:
      entry.function = event->coll.function;
      entry.sequence = event->coll.sequence;
      entry.count = event->coll.count;
      entry.datatype = event->coll.datatype;
      break;
    case abi::kEventP2p:
      entry.function = event->p2p.function;
      entry.count = event->p2p.count;
      entry.peer = event->p2p.peer;
      break;
    case abi::kEventProxyOp:
      entry.peer = event->proxy_op.peer;
      entry.is_send = event->proxy_op.is_send != 0;
      entry.steps = event->proxy_op.steps;
      break;
    case abi::kEventProxyStep:
      entry.step = event->proxy_step.step;
      break;
    case abi::kEventKernelCh:
      entry.timer_ns = event->kernel_ch.gpu_timer_ns;
      break;
    default:
      break;
  }
  if constexpr (std::is_same_v<Descriptor, abi::v5::Descriptor>) {
    describe_new(*event, entry);
  }
  remember(std::move(entry));
  return abi::kSuccess;
}

int stop_event(void* handle) {
  const std::lock_guard lock(memory.mutex);
  remember({.call = Call::kStop, .handle = handle});
  return abi::kSuccess;
}

int record_event_state(void* handle, int state, abi::StateArgumentsV4* arguments) {
  const std::lock_guard lock(memory.mutex);
  Entry entry{.call = Call::kState, .handle = handle, .state = state};
  if (state == abi::kStateKernelChStop) {
    entry.timer_ns = arguments->kernel_ch.gpu_timer_ns;
  } else if (state >= abi::kStateCtrlIdle && state <= abi::kStateCtrlAppendEnd) {
    entry.operations = arguments->proxy_ctrl.appended_ops;
  } else if (state < abi::kStateCtrlIdle || state == abi::kStateSendPeerWait) {
    entry.bytes = arguments->proxy_step.transferred_bytes;
  }
  remember(std::move(entry));
  return abi::kSuccess;
}

int finalize(void* context) {
  const std::lock_guard lock(memory.mutex);
  remember({.call = Call::kFinalize,
            .rank = static_cast<Context*>(context)->rank,
            .comm_hash = static_cast<Context*>(context)->hash});
  return abi::kSuccess;
}

#if RECORDER_VERSION == 5
int init_v5(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
            abi::Logger log) {
  return init(context, mask, name, hash, nodes, ranks, rank, log);
}
#endif

}  // namespace

#if RECORDER_VERSION == 5
extern "C" abi::v5::Profiler ncclProfiler_v5;
abi::v5::Profiler ncclProfiler_v5 = {"recorder",         init_v5, start_event<abi::v5::Descriptor>, stop_event,
                                     record_event_state, finalize};
#else
extern "C" abi::v4::Profiler ncclProfiler_v4;
abi::v4::Profiler ncclProfiler_v4 = {"recorder",         init,    start_event<abi::v4::Descriptor>, stop_event,
                                     record_event_state, finalize};
#endif

extern "C" lab::test::Recorder recorder;
lab::test::Recorder recorder = {[](int mask, int result) {
                                  const std::lock_guard lock(memory.mutex);
                                  memory.mask = mask;
                                  memory.result = result;
                                  memory.entries.clear();
                                },
                                [] {
                                  const std::lock_guard lock(memory.mutex);
                                  return memory.entries;
                                }};
