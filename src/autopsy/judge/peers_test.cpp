// SPDX-License-Identifier: Apache-2.0
#include "autopsy/judge/peers.h"

#include <gtest/gtest.h>

#include "autopsy/testing/snapshots.h"

namespace stalltrace::autopsy {
namespace {

using testing::JobSnapshots;

TEST(RankConnections, BothEndsOfARing) {
  JobSnapshots job(3);
  const auto connections = rank_connections(job.snapshots()[1]);
  EXPECT_EQ(connections.size(), 6);
  for (const RankConnection& connection : connections) {
    EXPECT_NE(connection.from, connection.to);
    EXPECT_EQ(connection.socket->local, connection.other->remote);
  }
  EXPECT_TRUE(outside_connections(job.snapshots()[1]).empty());
}

TEST(RankConnections, LoopbackAddressesOfOtherNamespacesAreOthers) {
  JobSnapshots job(2);
  Snapshot& snapshot = job.snapshots()[1];
  for (RankState& rank : snapshot.ranks) {
    for (TcpSocket& socket : rank.sockets) {
      socket.local.address = socket.remote.address = "127.0.0.1";
    }
  }
  EXPECT_TRUE(rank_connections(snapshot).empty());
  for (RankState& rank : snapshot.ranks) {
    for (TcpSocket& socket : rank.sockets) {
      socket.netns = 1;
    }
  }
  EXPECT_EQ(rank_connections(snapshot).size(), 4);
}

TEST(RankConnections, AnEndThatFitsTwoRanksIsNeithers) {
  JobSnapshots job(3);
  Snapshot& snapshot = job.snapshots()[1];
  snapshot.ranks[2].sockets = snapshot.ranks[1].sockets;  // a container with the same addresses
  for (const RankConnection& connection : rank_connections(snapshot)) {
    EXPECT_NE(connection.from, 0);
  }
}

/// A file may be hostile: a search of all pairs of these would take minutes.
TEST(RankConnections, ManySocketsWithTheSameEndsTakeNoLonger) {
  JobSnapshots job(2);
  for (const int rank : {0, 1}) {
    job.both(rank, [](RankState& state) {
      const TcpSocket socket = state.sockets[0];
      for (uint64_t number = 0; number < 100'000; ++number) {
        state.sockets.push_back(socket);
        state.sockets.back().inode = 5000 + number;
      }
    });
  }
  EXPECT_EQ(rank_connections(job.snapshots()[1]).size(), 200'004);
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
}

TEST(RankConnections, ASocketThatIsConnectedToItselfHasNoPeer) {
  JobSnapshots job(2);
  TcpSocket& socket = job.last(0).sockets[0];
  socket.remote = socket.local;
  job.last(1).sockets[0] = socket;
  for (const RankConnection& connection : rank_connections(job.snapshots()[1])) {
    EXPECT_NE(connection.socket->local, connection.socket->remote);
  }
}

}  // namespace
}  // namespace stalltrace::autopsy
