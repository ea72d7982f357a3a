// SPDX-License-Identifier: Apache-2.0
// ncclProfiler_v1 to ncclProfiler_v6: each function converts NCCL's arguments into the recorder's. NCCL uses the newest
// version that it knows.
#include "plugin/plugin.h"
#include "plugin/recorder/event_descriptor.h"
#include "plugin/recorder/recorder.h"

namespace stalltrace::plugin {
namespace {

int start(const InitRequest& request, void** context, int* mask) {
  uint64_t number = 0;
  const uint32_t wanted = start_communicator(request, &number);
  if (context != nullptr) {
    *context = reinterpret_cast<void*>(number);
  }
  if (mask != nullptr) {
    *mask = static_cast<int>(wanted);
  }
  return nccl::kSuccess;
}

template <uint32_t Version>
int init_v1(void** context, int* mask) {
  return start({.interface_version = Version, .nccl_code = __builtin_return_address(0)}, context, mask);
}

int init_v4(void** context, int* mask, const char* comm_name, uint64_t comm_hash, int nodes, int ranks, int rank,
            nccl::Logger logger) {
  return start({.interface_version = 4,
                .communicator = {comm_hash, comm_name, rank, ranks, nodes},
                .logger = logger,
                .nccl_code = __builtin_return_address(0)},
               context, mask);
}

template <uint32_t Version>
int init_v5(void** context, uint64_t comm_hash, int* mask, const char* comm_name, int nodes, int ranks, int rank,
            nccl::Logger logger) {
  return start({.interface_version = Version,
                .communicator = {comm_hash, comm_name, rank, ranks, nodes},
                .logger = logger,
                .nccl_code = __builtin_return_address(0)},
               context, mask);
}

/// Before v4 the collectives themselves carry communicator and rank.
template <typename Descriptor>
void learn(Box& box, uint64_t context, const Descriptor& descriptor) {
  if constexpr (requires { descriptor.coll.comm_hash; }) {
    const bool is_coll = descriptor.type == nccl::kEventColl;
    if (!is_coll && descriptor.type != nccl::kEventP2p) {
      return;
    }
    if (Communicator* communicator = communicator_of(box, context)) {
      learn_communicator(*communicator, is_coll ? descriptor.coll.comm_hash : descriptor.p2p.comm_hash,
                         descriptor.rank);
    }
  }
}

template <typename Descriptor>
int start_event_of(void* context, void** handle, Descriptor* descriptor) {
  *handle = nullptr;
  Box* box = active_box();
  if (box == nullptr || descriptor == nullptr) {
    return nccl::kSuccess;
  }
  const uint64_t number = reinterpret_cast<uint64_t>(context);
  Event initial{};
  if (!fill_event(*descriptor, initial)) {
    count_loss(*box, ST_BOX_LOST_UNKNOWN_TYPE);
    return nccl::kSuccess;
  }
  learn(*box, number, *descriptor);
  const uint64_t id = start_event(*box, number, initial);
  *handle = reinterpret_cast<void*>(id == 0 && initial.type == ST_BOX_GROUP ? kUnkeptGroup : id);
  return nccl::kSuccess;
}

int stop_event_of(void* handle) {
  Box* box = active_box();
  const uint64_t id = id_of_handle(handle);
  if (box != nullptr && id != 0) {
    stop_event(*box, id);
  }
  return nccl::kSuccess;
}

StateDetail detail_of(int state, const nccl::StateArgumentsV1& arguments) {
  StateDetail detail;
  if (state <= nccl::kStateRecvDone) {
    detail.bytes = arguments.proxy_op.transferred_bytes;
  } else if (state >= nccl::kStateCtrlIdle && state <= nccl::kStateCtrlAppendEnd) {
    detail.appended_ops = arguments.proxy_ctrl.appended_ops;
  }
  return detail;
}

StateDetail detail_of(int state, const nccl::StateArgumentsV4& arguments) {
  StateDetail detail;
  if (state == nccl::kStateSendWait || state == nccl::kStateRecvFlushWait) {
    detail.bytes = arguments.proxy_step.transferred_bytes;
  } else if (state >= nccl::kStateCtrlIdle && state <= nccl::kStateCtrlAppendEnd) {
    detail.appended_ops = arguments.proxy_ctrl.appended_ops;
  } else if (state == nccl::kStateKernelChStop) {
    detail.gpu_timer_ns = arguments.kernel_ch.gpu_timer_ns;
  }
  return detail;
}

template <typename StateArguments>
int record_state_of(void* handle, int state, StateArguments* arguments) {
  Box* box = active_box();
  const uint64_t id = id_of_handle(handle);
  if (box != nullptr && id != 0) {
    record_state(*box, id, state, arguments != nullptr ? detail_of(state, *arguments) : StateDetail{});
  }
  return nccl::kSuccess;
}

int finalize(void* context) {
  finish_communicator(reinterpret_cast<uint64_t>(context));
  return nccl::kSuccess;
}

template <typename Profiler, typename Descriptor, typename StateArguments>
constexpr Profiler table(decltype(Profiler::init) init) {
  return {"stalltrace", init, start_event_of<Descriptor>, stop_event_of, record_state_of<StateArguments>, finalize};
}

}  // namespace
}  // namespace stalltrace::plugin

// NOLINTBEGIN: NCCL's names
#define STALLTRACE_EXPORT(version, init)                                                                    \
  [[gnu::visibility("default")]] stalltrace::nccl::version::Profiler ncclProfiler_##version =               \
      stalltrace::plugin::table<stalltrace::nccl::version::Profiler, stalltrace::nccl::version::Descriptor, \
                                stalltrace::nccl::version::StateArguments>(stalltrace::plugin::init);

extern "C" {
STALLTRACE_EXPORT(v1, init_v1<1>)
STALLTRACE_EXPORT(v2, init_v1<2>)
STALLTRACE_EXPORT(v3, init_v1<3>)
STALLTRACE_EXPORT(v4, init_v4)
STALLTRACE_EXPORT(v5, init_v5<5>)
STALLTRACE_EXPORT(v6, init_v5<6>)
}
// NOLINTEND
