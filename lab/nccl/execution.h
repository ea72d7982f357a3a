// SPDX-License-Identifier: Apache-2.0
// One plan being executed, in stages: its collectives one after the other, then all its sends and receives at once, so
// that ranks that exchange data in a group cannot block each other. Used by the proxy thread alone.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "plan.h"
#include "transport/transfer.h"

namespace lab::nccl {

class Execution {
 public:
  /// `profiler` may be null; it is notified of every operation at once.
  Execution(std::shared_ptr<Plan> plan, int rank, int nranks, Scratch& scratch, Profiler* profiler);

  /// The plan is the next one, but the device need not have reached it. For the profiler.
  void begin();
  /// The device has reached it: moves what can be moved now. Sets *moved if anything was.
  ncclResult_t advance(Links& links, bool* done, bool* moved);
  void add_polls(const Links& links, std::vector<pollfd>* polls) const;
  [[nodiscard]] Plan& plan() const { return *plan_; }
  /// What the profiler knows of it, one for each task and direction.
  [[nodiscard]] int proxy_operations() const;

 private:
  using Stage = std::vector<Transfer>;

  Stage ring_stage(const Operation& operation);
  Stage point_to_point_stage();
  /// The transfers have become the next ones to move.
  static void begin_stage(const Stage& stage);

  std::shared_ptr<Plan> plan_;
  int rank_;
  int nranks_;
  Scratch& scratch_;
  Profiler* profiler_;
  std::deque<Stage> stages_;  // those not done, the first under way
  bool begun_ = false;
};

}  // namespace lab::nccl
