// SPDX-License-Identifier: Apache-2.0
// Groups, point-to-point, several communicators and streams, splits.
#include <numeric>

#include "ranks.h"
#include "values.h"

namespace lab::test {
namespace {

using Ints = std::vector<int32_t>;

TEST(Group, RanksThatAllSendFirstDoNotBlockEachOther) {
  constexpr size_t kCount = 2'000'000;  // far more than the sockets' buffers hold
  with_ranks(4, [](const Rank& rank) {
    Ints recv(kCount);
    const Ints send(kCount, rank.rank());
    const int next = (rank.rank() + 1) % 4;
    const int previous = (rank.rank() + 3) % 4;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclSend(send.data(), kCount, ncclInt32, next, rank.comm(), rank.stream()), ncclSuccess);
    ASSERT_EQ(ncclRecv(recv.data(), kCount, ncclInt32, previous, rank.comm(), rank.stream()), ncclSuccess);
    EXPECT_EQ(cudaStreamQuery(rank.stream()), cudaSuccess) << "nothing is launched before the group ends";
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    rank.synchronize();
    EXPECT_EQ(recv, Ints(kCount, previous));
  });
}

TEST(Group, MessagesBetweenTwoRanksKeepTheirOrder) {
  with_ranks(2, [](const Rank& rank) {
    Ints data(30);
    std::iota(data.begin(), data.end(), 0);
    Ints got(30, -1);
    for (int i = 0; i < 30; i += 3) {  // no group: each call on its own
      int32_t* at = rank.rank() == 0 ? &data[static_cast<size_t>(i)] : &got[static_cast<size_t>(i)];
      const auto call = [&](int32_t* buffer, size_t count) {
        return rank.rank() == 0 ? ncclSend(buffer, count, ncclInt32, 1, rank.comm(), rank.stream())
                                : ncclRecv(buffer, count, ncclInt32, 0, rank.comm(), rank.stream());
      };
      ASSERT_EQ(call(at, 1), ncclSuccess);
      ASSERT_EQ(call(at + 1, 0), ncclSuccess);
      ASSERT_EQ(call(at + 1, 2), ncclSuccess);
    }
    rank.synchronize();
    EXPECT_EQ(rank.rank() == 0 ? data : got, data);
  });
}

TEST(Group, MixesCollectivesAndPointToPoint) {
  with_ranks(3, [](const Rank& rank) {
    Ints sum(1000, rank.rank() + 1);
    Ints high(1000, rank.rank() + 1);
    const Ints own(10, rank.rank());
    Ints self(10);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);  // nested
    ASSERT_EQ(ncclAllReduce(sum.data(), sum.data(), 1000, ncclInt32, ncclSum, rank.comm(), rank.stream()), ncclSuccess);
    ASSERT_EQ(ncclSend(own.data(), 10, ncclInt32, rank.rank(), rank.comm(), rank.stream()), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(high.data(), high.data(), 1000, ncclInt32, ncclMax, rank.comm(), rank.stream()),
              ncclSuccess);
    ASSERT_EQ(ncclRecv(self.data(), 10, ncclInt32, rank.rank(), rank.comm(), rank.stream()), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    rank.synchronize();
    EXPECT_EQ(sum, Ints(1000, 6));
    EXPECT_EQ(high, Ints(1000, 3));
    EXPECT_EQ(self, own);
  });
}

TEST(Group, OneThreadDrivesAllDevices) {
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  std::vector<ncclComm_t> comms(3);
  ASSERT_EQ(ncclCommInitAll(comms.data(), 3, nullptr), ncclSuccess);
  std::vector<Ints> data;
  for (int i = 0; i < 3; ++i) {
    int device = -1;
    EXPECT_EQ(ncclCommCuDevice(comms[static_cast<size_t>(i)], &device), ncclSuccess);
    EXPECT_EQ(device, i);
    data.emplace_back(500, i + 1);
  }
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (size_t i = 0; i < 3; ++i) {  // each on its device's default stream
    ASSERT_EQ(ncclAllReduce(data[i].data(), data[i].data(), 500, ncclInt32, ncclSum, comms[i], nullptr), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (int i = 0; i < 3; ++i) {
    cudaSetDevice(i);
    cudaDeviceSynchronize();
    EXPECT_EQ(data[static_cast<size_t>(i)], Ints(500, 6));
    EXPECT_EQ(ncclCommDestroy(comms[static_cast<size_t>(i)]), ncclSuccess);
  }
}

TEST(Communicators, SplitByColourOrdersByKey) {
  with_ranks(5, [](const Rank& rank) {
    ncclComm_t part = nullptr;
    const bool apart = rank.rank() == 4;
    const int color = apart ? NCCL_SPLIT_NOCOLOR : rank.rank() % 2;
    ASSERT_EQ(ncclCommSplit(rank.comm(), color, -rank.rank(), &part, nullptr), ncclSuccess);
    if (apart) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    int own = -1;
    int count = -1;
    ASSERT_EQ(ncclCommUserRank(part, &own), ncclSuccess);
    ASSERT_EQ(ncclCommCount(part, &count), ncclSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(own, rank.rank() < 2 ? 1 : 0) << "the higher rank has the lower key";
    Ints data(1000, rank.rank());
    ASSERT_EQ(ncclAllReduce(data.data(), data.data(), 1000, ncclInt32, ncclSum, part, rank.stream()), ncclSuccess);
    rank.synchronize();
    EXPECT_EQ(data, Ints(1000, rank.rank() % 2 == 0 ? 2 : 4));
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  });
}

TEST(Communicators, RunAtTheSameTimeOnStreamsOfTheirOwn) {
  const ncclUniqueId other_id = new_id();
  with_ranks(3, [&](const Rank& rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&other, 3, other_id, rank.rank(), &config), ncclSuccess);
    cudaStream_t other_stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&other_stream), cudaSuccess);
    std::vector<Ints> data(20, Ints(20000, 1));
    for (size_t i = 0; i < data.size(); ++i) {
      // ranks launch on the communicators in different orders, which independent streams must tolerate
      const bool first = (i + static_cast<size_t>(rank.rank())) % 2 == 0;
      Ints& buffer = data[(i / 2 * 2) + (first ? 0 : 1)];
      ASSERT_EQ(ncclAllReduce(buffer.data(), buffer.data(), buffer.size(), ncclInt32, ncclSum,
                              first ? rank.comm() : other, first ? rank.stream() : other_stream),
                ncclSuccess);
    }
    rank.synchronize();
    ASSERT_EQ(cudaStreamSynchronize(other_stream), cudaSuccess);
    for (const Ints& buffer : data) {
      EXPECT_EQ(buffer, Ints(20000, 3));
    }
    EXPECT_EQ(ncclCommFinalize(other), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
    EXPECT_EQ(cudaStreamDestroy(other_stream), cudaSuccess);
  });
}

TEST(Communicators, TwoStreamsOfOneCommunicatorKeepLaunchOrder) {
  with_ranks(2, [](const Rank& rank) {
    cudaStream_t second = nullptr;
    ASSERT_EQ(cudaStreamCreate(&second), cudaSuccess);
    Ints a(100000, 1);
    Ints b(50, 5);
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(ncclAllReduce(a.data(), a.data(), a.size(), ncclInt32, ncclMax, rank.comm(), rank.stream()),
                ncclSuccess);
      ASSERT_EQ(ncclAllReduce(b.data(), b.data(), b.size(), ncclInt32, ncclMin, rank.comm(), second), ncclSuccess);
    }
    rank.synchronize();
    ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(a, Ints(100000, 1));
    EXPECT_EQ(b, Ints(50, 5));
    EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
  });
}

}  // namespace
}  // namespace lab::test
