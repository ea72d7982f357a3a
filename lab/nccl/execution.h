// SPDX-License-Identifier: Apache-2.0
// The execution of one plan, in stages: its collectives one after the other, then all its sends and receives together,
// so that ranks that exchange data in a group cannot block each other. Used by the proxy thread only.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "plan.h"
#include "transport/transfer.h"

namespace lab::nccl {

class Execution {
 public:
  /// `profiler` may be null; it is notified of every operation immediately.
  Execution(std::shared_ptr<Plan> plan, int rank, int nranks, Scratch& scratch, Profiler* profiler);

  /// The plan is the next one, although the device may not have reached it. For the profiler.
  void begin();
  /// The device has reached the plan: moves all data that can move now. Sets *moved if any was.
  ncclResult_t advance(Links& links, bool* done, bool* moved);
  void add_polls(const Links& links, std::vector<pollfd>* polls) const;
  [[nodiscard]] Plan& plan() const { return *plan_; }
  /// Number of operations reported to the profiler, one per task and direction.
  [[nodiscard]] int proxy_operations() const;

 private:
  using Stage = std::vector<Transfer>;

  Stage ring_stage(const Operation& operation);
  Stage point_to_point_stage();
  /// Its transfers are the next ones to run.
  static void begin_stage(const Stage& stage);

  std::shared_ptr<Plan> plan_;
  int rank_;
  int nranks_;
  Scratch& scratch_;
  Profiler* profiler_;
  std::deque<Stage> stages_;  // those not done; the first is running
  bool begun_ = false;
};

}  // namespace lab::nccl
