// SPDX-License-Identifier: Apache-2.0
// The operations of one communicator that are launched together, on their way from the caller through the streams to
// the proxy thread and back. A plan is ready when all streams that it was launched on have reached it; its kernels on
// them run until the proxy thread has finished it. Any thread may call anything here.
#pragma once

#include <lab_kernel.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "nccl.h"
#include "operation.h"
#include "transport/socket.h"

namespace lab::nccl {

class WorkQueue;

class Plan {
 public:
  Plan(std::vector<Operation> operations, std::shared_ptr<WorkQueue> queue, size_t streams);

  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
  /// For the launching thread, before the plan is posted.
  [[nodiscard]] std::vector<Operation>& operations() { return operations_; }

  /// One stream has reached the plan, whose kernel now runs there.
  void arrive(labKernel_t kernel);
  [[nodiscard]] bool ready() const;
  /// The transfers are done, or will never be: ends the kernels. Called without a lock, since a stream may then reach
  /// the next plan.
  void finish();
  /// True if the plan finished within the time.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds limit) const;

 private:
  std::vector<Operation> operations_;
  const std::shared_ptr<WorkQueue> queue_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  size_t streams_missing_;
  std::vector<labKernel_t> kernels_;
  bool finished_ = false;
};

/// The plans of one communicator, in launch order. Wakes the proxy thread through a file descriptor, so that one poll()
/// waits for work and sockets.
class WorkQueue {
 public:
  WorkQueue();

  /// Appends; a closed queue finishes the plan at once.
  void push(const std::shared_ptr<Plan>& plan);
  /// Removes and returns the oldest plan if it is ready.
  std::shared_ptr<Plan> take_ready();
  /// Removes and returns all plans, ready or not, oldest first.
  std::deque<std::shared_ptr<Plan>> take_all();
  [[nodiscard]] bool has_ready() const;
  /// Finishes all plans, including later ones. Streams continue; what they waited for was aborted.
  void close();
  [[nodiscard]] bool closed() const;

  void wake() const;
  void drain_wakes() const;
  [[nodiscard]] int wake_fd() const { return wake_.get(); }

  /// Blocks until every plan pushed so far is finished, the queue is closed or `give_up` returns true (called every 50
  /// ms).
  template <typename GiveUp>
  void wait_idle(GiveUp give_up) {
    std::unique_lock lock(mutex_);
    while (unfinished_ > 0 && !closed_ && !give_up()) {
      idle_.wait_for(lock, std::chrono::milliseconds(50));
    }
  }
  void note_finished();

 private:
  Socket wake_;  // an eventfd
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<std::shared_ptr<Plan>> plans_;
  size_t unfinished_ = 0;
  bool closed_ = false;
};

}  // namespace lab::nccl
