// SPDX-License-Identifier: Apache-2.0
// Which steps are reported to a tracer, and their content. Tests with a real probe are in tests/bpf.
#include "plugin/recorder/marker.h"

#include <gtest/gtest.h>

#include <vector>

namespace stalltrace::plugin {
namespace {

constexpr uint16_t kTracer = 1;

class Marker : public testing::Test {
 protected:
  Marker() {
    header_.communicator_capacity = 2;
    communicators_[1] = {.serial = 5, .hash = 0xabc, .rank = 2, .ranks = 8};
    box_.header = &header_;
    box_.communicators = communicators_;
  }
  ~Marker() override { forget_connections(); }

  static Event step(uint64_t bytes, int channel = 3, bool send = true) {
    Event event{};
    event.type = ST_BOX_PROXY_STEP;
    event.communicator = 5;
    event.channels = static_cast<uint16_t>(channel);
    event.flags = send ? ST_BOX_SEND_SIDE : 0;
    event.start_ns = now_ns();
    event.u.proxy_step.peer = 6;
    event.u.proxy_step.transferred_bytes = bytes;
    return event;
  }
  static Event p2p_step(uint64_t bytes) {
    Event event = step(bytes);
    event.flags |= ST_BOX_OF_P2P;
    return event;
  }
  bool describes(const Event& event, uint16_t semaphore = kTracer) {
    return describe_step(box_, event, semaphore, moved_);
  }

  /// The numbers, from 1, of the reported steps among the next `count`.
  std::vector<int> reported(int count, uint64_t bytes, uint16_t semaphore = kTracer) {
    std::vector<int> numbers;
    for (int number = 1; number <= count; ++number) {
      if (describes(step(bytes), semaphore)) {
        numbers.push_back(number);
      }
    }
    return numbers;
  }

  st_box_header header_{};
  Communicator communicators_[2] = {};
  Box box_;
  st_step_moved moved_{};
};

TEST_F(Marker, SaysWhoseStepItWas) {
  describes(step(5000));
  ASSERT_TRUE(describes(step(7000)));
  EXPECT_EQ(moved_.size, sizeof moved_);
  EXPECT_EQ(moved_.version, ST_MARKER_VERSION);
  EXPECT_EQ(moved_.kind, ST_STEP_COLLECTIVE);
  EXPECT_EQ(moved_.comm_hash, 0xabcU);
  EXPECT_EQ(moved_.rank, 2);
  EXPECT_EQ(moved_.ranks, 8);
  EXPECT_EQ(moved_.peer, 6);
  EXPECT_EQ(moved_.channel, 3);
  EXPECT_EQ(moved_.is_send, 1);
  EXPECT_EQ(moved_.own.steps, 2U);
  EXPECT_EQ(moved_.own.bytes, 12'000U);
  EXPECT_EQ(moved_.alone_since_ns, 0U);
}

TEST_F(Marker, ReportsInRunsEverFurtherApart) {
  EXPECT_EQ(reported(300, 4096), (std::vector{1, 2, 3, 4, 16, 17, 18, 19, 76, 77, 78, 79}));
}

TEST_F(Marker, ReportsAgainWhenAnotherTracerListens) {
  reported(10, 4096);
  EXPECT_EQ(reported(10, 4096, kTracer + 1), (std::vector{1, 2, 3, 4}));
}

TEST_F(Marker, SmallStepsProveNothingUnlessTheyAreAlone) {
  EXPECT_TRUE(reported(20, 8).empty());
  count_operation_start(true, now_ns());
  EXPECT_EQ(reported(6, 8), (std::vector{1, 2, 3, 4}));
  EXPECT_GT(moved_.alone_since_ns, 0U);
  EXPECT_EQ(moved_.own.bytes, 24U * 8);
}

TEST_F(Marker, AnotherOperationOfTheDirectionIsCompany) {
  count_operation_start(true, now_ns());
  count_operation_start(false, now_ns());  // the other direction uses another socket
  describes(step(4096));
  EXPECT_GT(moved_.alone_since_ns, 0U);
  count_operation_start(true, now_ns());
  describes(step(4096));
  EXPECT_EQ(moved_.alone_since_ns, 0U);
  const Event begun_in_company = step(4096);
  count_operation_end(true, now_ns());
  const uint64_t alone_ns = now_ns();
  describes(begun_in_company);
  EXPECT_GE(moved_.alone_since_ns, begun_in_company.start_ns) << "not for all of this step";
  EXPECT_LE(moved_.alone_since_ns, alone_ns);
}

TEST_F(Marker, WhatIsOfNoCommunicatorHereIsNotReported) {
  Event foreign = step(4096);
  foreign.communicator = 0;
  EXPECT_FALSE(describes(foreign));
  foreign.communicator = 77;
  EXPECT_FALSE(describes(foreign));
}

TEST_F(Marker, DirectionsAndChannelsAreCountedApart) {
  describes(step(1024, 1));
  describes(step(2048, 2));
  describes(step(4096, 1, false));
  ASSERT_TRUE(describes(step(1024, 1)));
  EXPECT_EQ(moved_.own.bytes, 2048U);
  EXPECT_EQ(moved_.own.steps, 2U);
  EXPECT_EQ(moved_.all.bytes, 2048U);
  EXPECT_EQ(moved_.all.steps, 2U);
}

TEST_F(Marker, KindsAreCountedApartAndTogether) {
  describes(step(5000));
  describes(p2p_step(7000));
  ASSERT_TRUE(describes(p2p_step(1100)));
  EXPECT_EQ(moved_.kind, ST_STEP_P2P);
  EXPECT_EQ(moved_.own.steps, 2U);
  EXPECT_EQ(moved_.own.bytes, 8100U);
  EXPECT_EQ(moved_.all.steps, 3U);
  EXPECT_EQ(moved_.all.bytes, 13'100U);
  ASSERT_TRUE(describes(step(2000)));
  EXPECT_EQ(moved_.kind, ST_STEP_COLLECTIVE);
  EXPECT_EQ(moved_.own.bytes, 7000U);
  EXPECT_EQ(moved_.all.bytes, 15'100U);
}

TEST_F(Marker, OneKindIsReportedHoweverOftenTheOtherWas) {
  reported(100, 4096);
  int p2p = 0;
  for (int number = 0; number < 10; ++number) {
    p2p += describes(p2p_step(4096)) ? 1 : 0;
  }
  EXPECT_EQ(p2p, 4);
}

}  // namespace
}  // namespace stalltrace::plugin
