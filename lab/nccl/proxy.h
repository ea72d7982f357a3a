// SPDX-License-Identifier: Apache-2.0
// The proxy thread of one communicator ("NCCL Progress%2d"): takes plans in launch order and drives their transfers
// over the data connections. It waits in poll() for work and sockets together and never spins.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "execution.h"
#include "links.h"
#include "plan.h"

namespace lab::nccl {

class Proxy {
 public:
  Proxy(int rank, int nranks, int device, Links links);
  /// Ends the thread; plans that are not done are given up.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] const std::shared_ptr<WorkQueue>& queue() const { return queue_; }

  /// The error that stopped the transfers, ncclSuccess if none did. A plan that failed stays unfinished, as on a
  /// device.
  [[nodiscard]] ncclResult_t async_error() const { return async_error_; }

 private:
  void run();
  void start_next();
  void advance();
  void wait();

  const int rank_;
  const int nranks_;
  const int device_;
  const std::shared_ptr<WorkQueue> queue_ = std::make_shared<WorkQueue>();
  std::atomic<ncclResult_t> async_error_ = ncclSuccess;

  // The thread's own.
  Links links_;
  const std::unique_ptr<Scratch> scratch_ = std::make_unique<Scratch>();
  std::unique_ptr<Execution> execution_;
  std::vector<pollfd> polls_;

  std::jthread thread_;
};

}  // namespace lab::nccl
