// SPDX-License-Identifier: Apache-2.0
#include "profile_launch.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "comm.h"
#include "reduce.h"

namespace lab::nccl {
namespace {

// An event is started if it is wanted, or if one of its descendants is.
constexpr int kProxyParents = abi::kEventProxyOp | abi::kEventProxyStep | abi::kEventKernelCh | abi::kEventNetPlugin;
constexpr int kCollParents = abi::kEventColl | kProxyParents;
constexpr int kP2pParents = abi::kEventP2p | kProxyParents;
constexpr int kGroupParents = abi::kEventGroup | kCollParents | kP2pParents;
constexpr int kCollApiParents = abi::kEventCollApi | kCollParents;
constexpr int kP2pApiParents = abi::kEventP2pApi | kP2pParents;
constexpr int kGroupApiParents =
    abi::kEventGroupApi | abi::kEventKernelLaunch | abi::kEventGroup | kCollApiParents | kP2pApiParents;

/// NCCL has no name for uint8.
const char* type_name(ncclDataType_t type) {
  static constexpr std::array kNames{"ncclInt8",    "Unknown",      "ncclInt32",      "ncclUint32",
                                     "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
                                     "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  return static_cast<size_t>(type) < kNames.size() ? kNames[static_cast<size_t>(type)] : "Unknown";
}

abi::v5::Descriptor descriptor(abi::EventType type, void* parent) {
  abi::v5::Descriptor event{};
  event.type = type;
  event.parent = parent;
  return event;
}

/// From 2.29 on, NCCL by default makes a separate task of a Broadcast, and reports only its call to the plugin
/// (collTaskAppend in enqueue.cc: the task has no eActivationMask). Here this is an option.
bool reports_only_the_call(Function function) {
  static const bool chosen = [] {
    const char* enabled = std::getenv("NCCL_ALLGATHERV_ENABLE");
    return enabled != nullptr && std::string_view(enabled) == "1";
  }();
  return chosen && function == Function::kBroadcast;
}

/// NCCL moves data that it only copies as bytes, and the Coll event says so.
bool moves_bytes(Function function) { return function == Function::kAllGather || function == Function::kBroadcast; }

}  // namespace

const char* function_name(Function function) {
  static constexpr std::array<const char*, kFunctions> kNames{"Connect",   "AllReduce", "ReduceScatter", "AllGather",
                                                              "Broadcast", "Reduce",    "Send",          "Recv"};
  return kNames[static_cast<size_t>(function)];
}

TaskProfile GroupCalls::call(const Operation& operation, int depth) {
  Profiler* profiler = operation.comm->profiler.get();
  if (profiler == nullptr || (operation.comm->nranks == 1 && !operation.is_point_to_point())) {
    return {};  // a single rank's collective is a copy, not an operation
  }
  TaskProfile task{.mask = profiler->mask()};
  if (profiler_ == nullptr && (task.mask & kGroupApiParents) != 0) {
    auto event = descriptor(abi::kEventGroupApi, nullptr);
    event.group_api = {.graph_captured = false, .depth = depth};
    profiler_ = profiler;
    handle_ = profiler->start(event);
    profiler->record(handle_, abi::kStateGroupStartApiStop);
  }
  task.group_api = handle_;
  if (operation.is_point_to_point() && (task.mask & kP2pApiParents) != 0) {
    auto event = descriptor(abi::kEventP2pApi, handle_);
    event.p2p_api = {.function = function_name(operation.function),
                     .count = operation.count,
                     .datatype = type_name(operation.type),
                     .stream = operation.stream,
                     .graph_captured = false};
    task.api = profiler->start(event);
  } else if (!operation.is_point_to_point() && (task.mask & kCollApiParents) != 0) {
    auto event = descriptor(abi::kEventCollApi, handle_);
    event.coll_api = {.function = function_name(operation.function),
                      .count = operation.count,
                      .datatype = type_name(operation.type),
                      .root = operation.root,
                      .stream = operation.stream,
                      .graph_captured = false};
    task.api = profiler->start(event);
  }
  profiler->stop(task.api);
  return reports_only_the_call(operation.function) ? TaskProfile{} : task;
}

void GroupCalls::begin_end() {
  if (profiler_ != nullptr) {
    profiler_->record(handle_, abi::kStateGroupEndApiStart);
  }
}

void GroupCalls::finish() {
  if (profiler_ != nullptr) {
    profiler_->stop(handle_);
  }
}

LaunchedTasks::LaunchedTasks(Profiler& profiler, std::vector<Operation>& operations)
    : profiler_(profiler), operations_(operations) {
  const auto first = std::ranges::find_if(operations, [](const Operation& one) { return one.profile.mask != 0; });
  first_ = first == operations.end() ? nullptr : &*first;
}

void LaunchedTasks::begin_kernel_launch() {
  if (first_ != nullptr && (first_->profile.mask & abi::kEventKernelLaunch) != 0) {
    auto event = descriptor(abi::kEventKernelLaunch, first_->profile.group_api);
    event.kernel_launch = {.stream = first_->stream};
    kernel_launch_ = profiler_.start(event);
  }
}

void LaunchedTasks::end_kernel_launch() { profiler_.stop(kernel_launch_); }

void LaunchedTasks::begin_post() {
  if (first_ != nullptr && (first_->profile.mask & kGroupParents) != 0) {
    group_ = profiler_.start(descriptor(abi::kEventGroup, nullptr));
  }
  for (const bool point_to_point : {false, true}) {
    for (Operation& operation : operations_) {
      if (operation.is_point_to_point() == point_to_point) {
        tasks_.push_back(operation.profile.task = start_task(operation, group_));
      }
    }
  }
}

void* LaunchedTasks::start_task(Operation& operation, void* group) {
  const int mask = operation.profile.mask;
  if (operation.is_point_to_point()) {
    if ((mask & kP2pParents) == 0) {
      return nullptr;
    }
    auto event = descriptor(abi::kEventP2p, operation.profile.api);
    event.rank = profiler_.rank();
    event.p2p = {.function = function_name(operation.function),
                 .buffer = operation.function == Function::kSend ? const_cast<void*>(operation.send) : operation.recv,
                 .datatype = type_name(operation.type),
                 .count = operation.count,
                 .peer = operation.root,
                 .channels = 1,
                 .parent_group = group};
    return profiler_.start(event);
  }
  const uint64_t sequence = profiler_.next_sequence(operation.function);
  if ((mask & kCollParents) == 0) {
    return nullptr;
  }
  const bool bytes = moves_bytes(operation.function);
  auto event = descriptor(abi::kEventColl, operation.profile.api);
  event.rank = profiler_.rank();
  event.coll = {.sequence = sequence,
                .function = function_name(operation.function),
                .send_buffer = operation.send,
                .receive_buffer = operation.recv,
                .count = bytes ? operation.count * element_bytes(operation.type) : operation.count,
                .root = operation.root,
                .datatype = type_name(bytes ? ncclInt8 : operation.type),
                .channels = 1,
                .warps = 1,
                .algorithm = "RING",
                .protocol = "SIMPLE",
                .parent_group = group};
  return profiler_.start(event);
}

void LaunchedTasks::end_post() {
  for (void* task : tasks_) {
    profiler_.stop(task);
  }
  profiler_.stop(group_);
}

}  // namespace lab::nccl
