// SPDX-License-Identifier: Apache-2.0
// The proxy thread of one communicator ("NCCL Progress%2d"): takes plans in launch order and runs their transfers over
// the data connections. It waits in poll() for work and sockets together and never spins. With a profiler plugin it
// takes plans as soon as they are posted, so that the plugin also gets operations that still wait for the device.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "execution.h"
#include "links.h"
#include "plan.h"

namespace lab::nccl {

class Proxy {
 public:
  /// Borrows the profiler, which may be null.
  Proxy(int rank, int nranks, int device, Links links, Profiler* profiler);
  /// Ends the thread; unfinished plans are abandoned.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] const std::shared_ptr<WorkQueue>& queue() const { return queue_; }

  /// The error that stopped the transfers, ncclSuccess if none did. A plan that failed stays unfinished, as on a
  /// device.
  [[nodiscard]] ncclResult_t async_error() const { return async_error_; }

 private:
  void run();
  /// Takes over plans posted since the last call; with a profiler only.
  void append_posted();
  void start_next();
  [[nodiscard]] bool may_start() const { return profiler_ != nullptr ? !appended_.empty() : queue_->has_ready(); }
  void advance();
  void report_idle(bool idle);
  void wait();
  void wait_for_events();

  const int rank_;
  const int nranks_;
  const int device_;
  Profiler* const profiler_;
  const std::shared_ptr<WorkQueue> queue_ = std::make_shared<WorkQueue>();
  std::atomic<ncclResult_t> async_error_ = ncclSuccess;

  // Used by the thread only.
  Links links_;
  const std::unique_ptr<Scratch> scratch_ = std::make_unique<Scratch>();
  std::unique_ptr<Execution> execution_;
  std::deque<std::unique_ptr<Execution>> appended_;  // later ones, already reported to the profiler
  bool idle_ = false;
  std::vector<pollfd> polls_;

  std::jthread thread_;
};

}  // namespace lab::nccl
