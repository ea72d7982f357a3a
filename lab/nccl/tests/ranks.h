// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of the test, each with a device, a stream and a communicator of its own, talking over loopback.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace lab::test {

/// One rank's view. The constructor is collective: it returns when all ranks are there.
class Rank {
 public:
  Rank(int rank, int nranks, const ncclUniqueId& id) : rank_(rank), nranks_(nranks) {
    EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
    EXPECT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    EXPECT_EQ(ncclCommInitRank(&comm_, nranks, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
  }
  ~Rank() {
    EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int nranks() const { return nranks_; }
  [[nodiscard]] ncclComm_t comm() const { return comm_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  void synchronize() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }
  /// For tests that end the communicator themselves.
  void forget_comm() { comm_ = nullptr; }

 private:
  int rank_;
  int nranks_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

inline ncclUniqueId new_id() {
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
  return id;
}

/// Runs `body` on every rank, all at once.
inline void with_ranks(int nranks, const std::function<void(Rank&)>& body) {
  const ncclUniqueId id = new_id();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] {
      Rank self(rank, nranks, id);
      body(self);
    });
  }
}

}  // namespace lab::test
