// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/responder.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "preflight/peers/endpoint.h"
#include "preflight/peers/probes.h"

namespace stalltrace::preflight {
namespace {

TEST(Flow, KeepsWithinItsLimits) {
  auto responder = Responder::open("127.0.0.1");
  ASSERT_TRUE(responder);
  responder->start();
  const Peer peer{.tcp = *Endpoint::of("127.0.0.1", responder->tcp_port()),
                  .udp = *Endpoint::of("127.0.0.1", responder->udp_port()),
                  .secret = responder->secret()};
  const auto paced = test_flow(peer, {.streams = 2, .bytes = 1 << 30, .time_ns = kNsPerSecond, .mbit = 50});
  ASSERT_TRUE(paced);
  EXPECT_LT(paced->mbit(), 200);
  EXPECT_GT(paced->waited, 0.5);
  const auto small = test_flow(peer, {.streams = 2, .bytes = 1 << 16, .time_ns = 10 * kNsPerSecond}, Segments::kSmall);
  ASSERT_TRUE(small);
  EXPECT_GT(small->bytes, 0);
  EXPECT_LE(small->bytes, 1 << 16);
  EXPECT_GE(small->segments, (1 << 16) / kSmallSegment);
}

TEST(Responder, AnswersOnlyToWhoKnowsItsSecret) {
  auto responder = Responder::open("127.0.0.1");
  ASSERT_TRUE(responder);
  responder->start();
  Peer peer{.tcp = *Endpoint::of("127.0.0.1", responder->tcp_port()),
            .udp = *Endpoint::of("127.0.0.1", responder->udp_port()),
            .secret = responder->secret()};
  PairResult right;
  test_reach(peer, right);
  EXPECT_EQ(right.reach, Reach::kReached);
  EXPECT_EQ(test_path_mtu(peer, 1500, 0).largest, 1500);
  const PathMtu of_unknown_interface = test_path_mtu(peer, 0, 0);
  EXPECT_GT(of_unknown_interface.own, 1500) << "loopback's";
  EXPECT_EQ(of_unknown_interface.largest, of_unknown_interface.own);
  peer.secret.back() = peer.secret.back() == '0' ? '1' : '0';
  PairResult wrong;
  test_reach(peer, wrong);
  EXPECT_EQ(wrong.reach, Reach::kBroken);
}

}  // namespace
}  // namespace stalltrace::preflight
