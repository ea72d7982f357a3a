// SPDX-License-Identifier: Apache-2.0
#include "profile_proxy.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace lab::nccl {
namespace {

constexpr int kStepParents = abi::kEventProxyStep | abi::kEventNetPlugin;
constexpr int kOperationParents = abi::kEventProxyOp | kStepParents;

/// The device's global timer: like a GPU's it counts nanoseconds, roughly those of UTC.
uint64_t device_timer_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

DirectionEvents::DirectionEvents(Profiler& profiler, bool sends, int peer, std::vector<TaskSteps> tasks)
    : profiler_(profiler), sends_(sends), peer_(peer) {
  for (const TaskSteps& steps : tasks) {
    void* handle = nullptr;
    if ((steps.task.mask & kOperationParents) != 0) {
      abi::v5::Descriptor event{};
      event.type = abi::kEventProxyOp;
      event.parent = steps.task.task;
      event.rank = profiler.rank();
      event.proxy_op = {.pid = getpid(),
                        .channel = 0,
                        .peer = peer_,
                        .steps = static_cast<int>(steps.count),
                        .chunk_bytes = static_cast<int>(kSliceBytes),
                        .is_send = sends_ ? 1 : 0};
      handle = profiler.start(event);
    }
    operations_.push_back({.steps = steps, .handle = handle, .transferred_bytes = 0});
    steps_ = steps.first + steps.count;
  }
}

void DirectionEvents::begin() {
  for (const Task& task : operations_) {
    profiler_.record(task.handle, abi::kStateOpInProgress);
  }
}

DirectionEvents::Task& DirectionEvents::task_of(size_t step) {
  return *std::ranges::find_if(operations_, [step](const Task& task) {
    return step >= task.steps.first && step < task.steps.first + task.steps.count;
  });
}

void DirectionEvents::post(abi::EventState state) {
  const Task& task = task_of(posted_);
  void*& slot = slots_[posted_ % kSlots];
  slot = nullptr;
  if ((task.steps.task.mask & kStepParents) != 0) {
    abi::v5::Descriptor event{};
    event.type = abi::kEventProxyStep;
    event.parent = task.handle;
    event.rank = profiler_.rank();
    event.proxy_step = {.step = static_cast<int>(posted_ - task.steps.first)};
    slot = profiler_.start(event);
    profiler_.record(slot, state, {.proxy_step = {.transferred_bytes = task.transferred_bytes}});
  }
  posted_++;
}

void DirectionEvents::record(abi::EventState state, size_t bytes) {
  Task& task = task_of(handed_on_);
  task.transferred_bytes = bytes;
  profiler_.record(slots_[handed_on_ % kSlots], state, {.proxy_step = {.transferred_bytes = bytes}});
}

void DirectionEvents::complete(size_t done) {
  for (; done_ < done; ++done_) {
    profiler_.stop(std::exchange(slots_[done_ % kSlots], nullptr));
    Task& task = task_of(done_);
    if (done_ + 1 == task.steps.first + task.steps.count) {
      profiler_.stop(std::exchange(task.handle, nullptr));
    }
  }
}

TransferEvents::TransferEvents(Profiler& profiler, const Tasks& tasks, int send_peer, int recv_peer)
    : profiler_(profiler),
      tasks_(tasks.all),
      recvs_(profiler, false, recv_peer, tasks.recvs),
      sends_(profiler, true, send_peer, tasks.sends) {}

void TransferEvents::begin(const Schedule& schedule) {
  recvs_.begin();
  sends_.begin();
  post(schedule, {});
}

void TransferEvents::device_arrived() {
  device_there_ = true;
  for (const TaskProfile& task : tasks_) {
    if ((task.mask & abi::kEventKernelCh) != 0) {
      abi::v5::Descriptor event{};
      event.type = abi::kEventKernelCh;
      event.parent = task.task;
      event.kernel_ch = {.channel = 0, .gpu_timer_ns = device_timer_ns()};
      kernels_.push_back(profiler_.start(event));
    }
  }
}

void TransferEvents::post(const Schedule& schedule, const Progress& now) {
  while (recvs_.may_post() && schedule.recvs[recvs_.posted()].after_sends <= now.sent) {
    recvs_.post(abi::kStateRecvWait);
  }
  while (sends_.may_post()) {
    sends_.post(abi::kStateSendGpuWait);
  }
}

void TransferEvents::follow(const Schedule& schedule, const Progress& now) {
  recvs_.complete(now.received);
  sends_.complete(now.sent);
  post(schedule, now);
  while (device_there_ && sends_.handed_on() < sends_.posted()) {
    const SendStep& step = schedule.sends[sends_.handed_on()];
    if (step.after_recvs > now.received) {
      return;
    }
    if (!std::exchange(peer_wait_reported_, true)) {
      sends_.record(abi::kStateSendPeerWait, step.bytes);
    }
    if (!now.connected) {
      return;
    }
    sends_.record(abi::kStateSendWait, step.bytes);
    sends_.hand_on();
    peer_wait_reported_ = false;
  }
}

void TransferEvents::received(size_t bytes) {
  recvs_.record(abi::kStateRecvFlushWait, bytes);
  recvs_.record(abi::kStateRecvGpuWait, bytes);
  recvs_.hand_on();
}

void TransferEvents::end() {
  for (void* kernel : kernels_) {
    profiler_.record(kernel, abi::kStateKernelChStop, {.kernel_ch = {.gpu_timer_ns = device_timer_ns()}});
    profiler_.stop(kernel);
  }
  kernels_.clear();
}

ControlEvent::ControlEvent(Profiler* profiler) : profiler_(profiler) {
  if (profiler_ != nullptr && (profiler_->mask() & abi::kEventProxyCtrl) != 0) {
    abi::v5::Descriptor event{};
    event.type = abi::kEventProxyCtrl;
    handle_ = profiler_->start(event);
  }
}

ControlEvent::~ControlEvent() {
  if (handle_ != nullptr) {
    profiler_->stop(handle_);
  }
}

void ControlEvent::record(abi::EventState state, int appended_operations) {
  if (handle_ != nullptr) {
    profiler_->record(handle_, state, {.proxy_ctrl = {.appended_ops = appended_operations}});
  }
}

}  // namespace lab::nccl
