// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace lab::nccl {

Plan::Plan(std::vector<Operation> operations, std::shared_ptr<WorkQueue> queue, size_t streams)
    : operations_(std::move(operations)), queue_(std::move(queue)), streams_missing_(streams) {}

void Plan::arrive(labKernel_t kernel) {
  bool finished = false;
  bool ready = false;
  {
    const std::lock_guard lock(mutex_);
    finished = finished_;
    if (!finished) {
      kernels_.push_back(kernel);
    }
    streams_missing_--;
    ready = streams_missing_ == 0;
  }
  if (finished) {
    labKernelEnd(kernel);
  }
  if (ready) {
    queue_->wake();
  }
}

bool Plan::ready() const {
  const std::lock_guard lock(mutex_);
  return streams_missing_ == 0;
}

void Plan::finish() {
  std::vector<labKernel_t> kernels;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    kernels.swap(kernels_);
    changed_.notify_all();
  }
  for (const labKernel_t kernel : kernels) {
    labKernelEnd(kernel);
  }
}

bool Plan::wait_for(std::chrono::milliseconds limit) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return finished_; });
}

WorkQueue::WorkQueue() : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void WorkQueue::push(const std::shared_ptr<Plan>& plan) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      plans_.push_back(plan);
      unfinished_++;
      return;
    }
  }
  plan->finish();
}

bool WorkQueue::has_ready() const {
  const std::lock_guard lock(mutex_);
  return !plans_.empty() && plans_.front()->ready();
}

std::shared_ptr<Plan> WorkQueue::take_ready() {
  const std::lock_guard lock(mutex_);
  if (plans_.empty() || !plans_.front()->ready()) {
    return nullptr;
  }
  auto plan = std::move(plans_.front());
  plans_.pop_front();
  return plan;
}

std::deque<std::shared_ptr<Plan>> WorkQueue::take_all() {
  const std::lock_guard lock(mutex_);
  return std::exchange(plans_, {});
}

void WorkQueue::close() {
  std::deque<std::shared_ptr<Plan>> rest;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    rest.swap(plans_);
    idle_.notify_all();
  }
  for (const auto& plan : rest) {
    plan->finish();
  }
  wake();
}

bool WorkQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void WorkQueue::note_finished() {
  const std::lock_guard lock(mutex_);
  unfinished_--;
  idle_.notify_all();
}

void WorkQueue::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));  // full means awake already
}

void WorkQueue::drain_wakes() const {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof(count));
}

}  // namespace lab::nccl
