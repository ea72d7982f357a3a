// SPDX-License-Identifier: Apache-2.0
#include "autopsy/judge/peers.h"

#include <gtest/gtest.h>

#include "autopsy/testing/snapshots.h"

namespace stalltrace::autopsy {
namespace {

using testing::JobLooks;

TEST(RankConnections, BothEndsOfARing) {
  JobLooks looks(3);
  const auto connections = rank_connections(looks.looks()[1]);
  EXPECT_EQ(connections.size(), 6);
  for (const RankConnection& connection : connections) {
    EXPECT_NE(connection.from, connection.to);
    EXPECT_EQ(connection.socket->local, connection.other->remote);
  }
  EXPECT_TRUE(outside_connections(looks.looks()[1]).empty());
}

TEST(RankConnections, LoopbackAddressesOfOtherNamespacesAreOthers) {
  JobLooks looks(2);
  Snapshot& look = looks.looks()[1];
  for (RankState& rank : look.ranks) {
    for (TcpSocket& socket : rank.sockets) {
      socket.local.address = socket.remote.address = "127.0.0.1";
    }
  }
  EXPECT_TRUE(rank_connections(look).empty());
  for (RankState& rank : look.ranks) {
    for (TcpSocket& socket : rank.sockets) {
      socket.netns = 1;
    }
  }
  EXPECT_EQ(rank_connections(look).size(), 4);
}

TEST(RankConnections, AnEndThatFitsTwoRanksIsNeithers) {
  JobLooks looks(3);
  Snapshot& look = looks.looks()[1];
  look.ranks[2].sockets = look.ranks[1].sockets;  // a container with the same addresses
  for (const RankConnection& connection : rank_connections(look)) {
    EXPECT_NE(connection.from, 0);
  }
}

}  // namespace
}  // namespace stalltrace::autopsy
