// SPDX-License-Identifier: Apache-2.0
// Collectives that plain data-parallel training doesn't use: AllGather, ReduceScatter, Broadcast, Reduce, an exchange
// with the neighbours by Send and Recv in a group, an exchange of all ranks with all, including themselves, and an
// AllReduce of a split communicator (even and odd ranks).
#pragma once

#include <cstddef>
#include <functional>

#include "job.h"

namespace lab::workload {

class Mix {
 public:
  explicit Mix(Job& job);

  /// Runs each once on the stream and waits; with --verify checks the results.
  void run(long step, cudaStream_t stream);

 private:
  void fill(long salt, cudaStream_t stream);
  /// Compares `count` elements of the result with value(i).
  void expect(const char* what, size_t count, cudaStream_t stream, const std::function<unsigned(size_t)>& value);
  void gather_and_scatter(long step, cudaStream_t stream);
  void rooted(long step, cudaStream_t stream);
  void exchange(long step, cudaStream_t stream);
  void all_to_all(long step, cudaStream_t stream);
  void half(long step, cudaStream_t stream);

  Job& job_;
  ncclDataType_t type_;
  size_t count_;  // elements of one rank's part
  ncclComm_t half_;
  Buffer send_;
  Buffer recv_;
};

}  // namespace lab::workload
