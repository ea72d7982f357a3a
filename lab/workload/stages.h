// SPDX-License-Identifier: Apache-2.0
// Pipeline-parallel work: activations go from rank to rank, gradients back. Also an exchange of borders between
// neighbours, one sending first and the other receiving first, as is necessary without a group.
#pragma once

#include <cstddef>

#include "job.h"

namespace lab::workload {

class Stages {
 public:
  explicit Stages(Job& job);

  /// One micro-batch through all stages; waits. The bug "stage" (as "skip" of bugs.h) keeps this rank away before its
  /// stage.
  void pipeline(cudaStream_t stream);
  /// One exchange; waits. With the bug "exchange" this rank sends first whatever its neighbour does.
  void exchange(cudaStream_t stream);

 private:
  void send(int peer, size_t count, cudaStream_t stream);
  void receive(int peer, size_t count, cudaStream_t stream);
  void wait(cudaStream_t stream);

  Job& job_;
  ncclDataType_t type_;
  Buffer send_;
  Buffer receive_;
};

}  // namespace lab::workload
