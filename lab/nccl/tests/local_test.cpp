// SPDX-License-Identifier: Apache-2.0
// Ranks of one node that send each other data without TCP.
#include <fstream>
#include <sstream>
#include <string>

#include "ranks.h"
#include "values.h"

namespace lab::test {
namespace {

using Ints = std::vector<int32_t>;

/// Accepted local connections between ranks in this network namespace.
int local_connections() {
  constexpr const char* kConnected = "03";
  std::ifstream table("/proc/net/unix");
  int connections = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, name;
    words >> number >> references >> protocol >> flags >> type >> state >> inode >> name;
    connections += state == kConnected && name == "@lab-nccl" ? 1 : 0;
  }
  return connections;
}

/// A ring, and messages over connections of their own.
void use_all_links(const Rank& rank) {
  constexpr size_t kCount = 500'000;  // more than the sockets' buffers hold
  Ints data(kCount, rank.rank() + 1);
  ASSERT_EQ(ncclAllReduce(data.data(), data.data(), kCount, ncclInt32, ncclSum, rank.comm(), rank.stream()),
            ncclSuccess);
  rank.synchronize();
  EXPECT_EQ(data, Ints(kCount, 6));
  const int next = (rank.rank() + 1) % 3;
  const int previous = (rank.rank() + 2) % 3;
  const Ints send(kCount, rank.rank());
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclSend(send.data(), kCount, ncclInt32, next, rank.comm(), rank.stream()), ncclSuccess);
  ASSERT_EQ(ncclRecv(data.data(), kCount, ncclInt32, previous, rank.comm(), rank.stream()), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  rank.synchronize();
  EXPECT_EQ(data, Ints(kCount, previous));
}

TEST(LocalLinks, CarryTheDataOfRanksOfOneNodeIfAskedTo) {
  for (const bool local : {true, false}) {
    SCOPED_TRACE(local);
    setenv("LAB_NCCL_SHM", local ? "1" : "0", 1);
    with_ranks(3, [&](const Rank& rank) {
      use_all_links(rank);
      if (rank.rank() == 0) {
        EXPECT_GE(local_connections(), local ? 2 : 0) << "rank 0 has accepted a ring's link and one for messages";
        EXPECT_TRUE(local || local_connections() == 0);
      }
    });
  }
  unsetenv("LAB_NCCL_SHM");
}

}  // namespace
}  // namespace lab::test
