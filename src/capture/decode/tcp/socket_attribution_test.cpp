// SPDX-License-Identifier: Apache-2.0
// Marks in, attributions out, as NCCL's progress thread makes them for several connections in turn, with and without
// its socket helpers.
#include "capture/decode/tcp/socket_attribution.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

namespace stalltrace::capture {
namespace {

constexpr uint64_t kStepBytes = 65536;
constexpr uint64_t kHeader = 4;

/// One process; `channel` stands for the connections to peer 1.
class Attributions : public testing::Test {
 protected:
  /// The channel's step is done; the thread's last bytes were on `cookie`.
  bool mark(uint16_t channel, uint64_t cookie, uint64_t bytes = kStepBytes, bool alone = false) {
    std::array<st_step_count, ST_STEP_KINDS>& counts = counts_[channel];
    counts[kind_].steps += 1;
    counts[kind_].bytes += bytes;
    now_ns_ += 1000;
    st_step_mark mark{};
    mark.header.tgid = 7;
    mark.step = {.size = sizeof mark.step,
                 .version = ST_MARKER_VERSION,
                 .comm_hash = 0xc033,
                 .own = counts[kind_],
                 .all = {.steps = counts[0].steps + counts[1].steps, .bytes = counts[0].bytes + counts[1].bytes},
                 .alone_since_ns = alone ? now_ns_ - 500 : 0,
                 .rank = 0,
                 .ranks = 4,
                 .peer = 1,
                 .channel = channel,
                 .is_send = 1,
                 .kind = kind_};
    mark.last = {.cookie = cookie, .moved = moved_[cookie], .time_ns = last_ns_};
    return attribution_.on_mark(mark);
  }
  void move(uint64_t cookie, uint64_t bytes) {
    moved_[cookie] += bytes;
    last_ns_ = now_ns_ + 900;
  }
  /// A step whose data the thread moves itself.
  bool step(uint16_t channel, uint64_t cookie, uint64_t bytes = kStepBytes, bool alone = false) {
    move(cookie, kHeader + bytes);
    return mark(channel, cookie, bytes, alone);
  }
  bool p2p_step(uint16_t channel, uint64_t cookie) {
    kind_ = ST_STEP_P2P;
    const bool changed = step(channel, cookie);
    kind_ = ST_STEP_COLLECTIVE;
    return changed;
  }
  [[nodiscard]] int channel_of(uint64_t cookie) const {
    const auto comm_socket = attribution_.comm_socket_of(cookie);
    return comm_socket ? comm_socket->channel : -1;
  }

  UserShares shares_;
  SocketAttribution attribution_{shares_};

 private:
  uint64_t now_ns_ = 1'000'000;
  uint64_t last_ns_ = 0;
  uint8_t kind_ = ST_STEP_COLLECTIVE;
  std::map<uint16_t, std::array<st_step_count, ST_STEP_KINDS>> counts_;
  std::map<uint64_t, uint64_t> moved_;
};

TEST_F(Attributions, ChannelsInTurnAreDistinguishedByTheirBytes) {
  for (int round = 0; round < 4; ++round) {
    step(0, 100);
    step(1, 101);
  }
  EXPECT_EQ(channel_of(100), 0);
  EXPECT_EQ(channel_of(101), 1);
  EXPECT_EQ(attribution_.comm_socket_of(100)->peer, 1);
  EXPECT_EQ(attribution_.comm_socket_of(100)->nccl_comm_hash, 0xc033U);
}

TEST_F(Attributions, ItTakesTwoProofs) {
  EXPECT_FALSE(step(0, 100));
  EXPECT_FALSE(step(0, 100));
  EXPECT_EQ(channel_of(100), -1);
  EXPECT_TRUE(step(0, 100));
  EXPECT_EQ(channel_of(100), 0);
}

/// Helpers move the data: the thread itself sends headers, channel by channel, so that before each mark the last socket
/// is always the other channel's.
TEST_F(Attributions, HeadersAloneProveNothing) {
  for (int round = 0; round < 20; ++round) {
    move(101, kHeader);
    mark(0, 101);
    move(100, kHeader);
    mark(1, 100);
  }
  EXPECT_EQ(channel_of(100), -1);
  EXPECT_EQ(channel_of(101), -1);
}

TEST_F(Attributions, SmallStepsProveNothingByTheirBytes) {
  for (int round = 0; round < 20; ++round) {
    step(0, 100, 8);
  }
  EXPECT_EQ(channel_of(100), -1);
}

TEST_F(Attributions, WhatIsAloneNeedsNoBytes) {
  for (int round = 0; round < 2; ++round) {
    move(100, kHeader);  // a header, whose data go by a helper
    mark(0, 100, 8, true);
  }
  EXPECT_EQ(channel_of(100), 0);
}

TEST_F(Attributions, ATransferFromBeforeIsNotOfTheOneThatIsAlone) {
  move(100, kHeader);
  mark(1, 100, 8);
  mark(1, 100, 8);  // time passes
  for (int round = 0; round < 3; ++round) {
    mark(0, 100, 8, true);
  }
  EXPECT_EQ(channel_of(100), -1);
}

TEST_F(Attributions, ASocketOfTwoConnectionsIsOfNone) {
  for (int round = 0; round < 3; ++round) {
    step(0, 100);
  }
  EXPECT_EQ(channel_of(100), 0);
  step(2, 100);
  EXPECT_TRUE(step(2, 100));
  EXPECT_EQ(channel_of(100), -1);
  step(0, 100);
  EXPECT_EQ(channel_of(100), -1);
}

TEST_F(Attributions, CollectivesAndTransfersInTurnOnSocketsOfTheirOwn) {
  for (int round = 0; round < 3; ++round) {
    step(0, 100);
    p2p_step(0, 101);
    step(1, 102);
    p2p_step(1, 103);
  }
  for (const uint64_t cookie : {100, 101}) {
    EXPECT_EQ(channel_of(cookie), 0);
    EXPECT_EQ(channel_of(cookie + 2), 1);
  }
}

TEST_F(Attributions, CollectivesAndTransfersInTurnOnOneSocket) {
  for (int round = 0; round < 3; ++round) {
    step(0, 100);
    p2p_step(0, 100);
    step(1, 102);
    p2p_step(1, 102);
  }
  EXPECT_EQ(channel_of(100), 0);
  EXPECT_EQ(channel_of(102), 1);
}

/// A socket's bytes must match its own steps, whatever steps of the other kind moved elsewhere.
TEST_F(Attributions, HalfOfItsStepsProvesNothingBesideTheOtherKind) {
  for (int round = 0; round < 3; ++round) {
    move(100, kHeader + kStepBytes / 2);
    mark(0, 100);
    p2p_step(0, 101);
  }
  EXPECT_EQ(channel_of(100), -1);
  EXPECT_EQ(channel_of(101), 0);
}

TEST_F(Attributions, ForgottenIsForgotten) {
  for (int round = 0; round < 3; ++round) {
    step(0, 100);
  }
  attribution_.forget_process(7);
  EXPECT_EQ(channel_of(100), 0) << "what was proven, until the connection is forgotten";
  attribution_.forget_connection(100);
  EXPECT_EQ(channel_of(100), -1);
}

}  // namespace
}  // namespace stalltrace::capture
