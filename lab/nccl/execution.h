// SPDX-License-Identifier: Apache-2.0
// One plan being executed: its collectives one after the other, then all its sends and receives at once, so that ranks
// that exchange data in a group cannot block each other. Used by the proxy thread alone.
#pragma once

#include <memory>
#include <vector>

#include "plan.h"
#include "transfer.h"

namespace lab::nccl {

class Execution {
 public:
  Execution(std::shared_ptr<Plan> plan, int rank, int nranks, Scratch& scratch);

  ncclResult_t advance(Links& links, bool* done);
  void add_polls(const Links& links, std::vector<pollfd>* polls) const;
  [[nodiscard]] Plan& plan() const { return *plan_; }

 private:
  /// Fills `running_` with the next transfers; false when there are none.
  bool start_next();
  Transfer ring_transfer(const Operation& operation);
  void start_point_to_point();

  std::shared_ptr<Plan> plan_;
  int rank_;
  int nranks_;
  Scratch& scratch_;
  size_t next_operation_ = 0;
  bool point_to_point_started_ = false;
  std::vector<Transfer> running_;
};

}  // namespace lab::nccl
