// SPDX-License-Identifier: Apache-2.0
// Connections and marks without end: what is kept of one user's, and that another's are not touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <map>
#include <string>

#include "capture/decode/tcp/network_tracker.h"
#include "model/memory_source.h"

namespace stalltrace::capture {
namespace {

using testing::SizeIs;
using Kind = UserShares::Kind;

constexpr uint32_t kPid = 100;
constexpr uint32_t kOther = 200;
constexpr uint64_t kNow = 1'000'000'000;

class NetworkShares : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(shares_.begin(kPid, 1000, 1));
    ASSERT_TRUE(shares_.begin(kOther, 2000, 1));
  }
  static st_header header(uint64_t time_ns, uint32_t pid) {
    return {.version = ST_WIRE_VERSION, .time_ns = time_ns, .tgid = pid, .tid = pid};
  }
  void seen(uint64_t cookie, uint64_t time_ns, uint32_t pid = kPid) {
    st_socket_seen record{};
    record.header = header(time_ns, pid);
    record.cookie = cookie;
    record.tuple = {.source_port = 1, .destination_port = 2, .family = AF_INET};
    tracker_.on_socket(record);
  }
  void mark(uint64_t communicator, uint64_t cookie) {
    st_step_mark record{};
    record.header = header(kNow, kPid);
    record.step = {.size = sizeof record.step, .version = ST_MARKER_VERSION, .comm_hash = communicator};
    record.last = {.cookie = cookie, .moved = 1, .time_ns = kNow};
    tracker_.on_step_mark(record);
  }
  void closed(uint64_t cookie, uint64_t time_ns, uint32_t pid = kPid) {
    st_tcp_event record{};
    record.header = header(time_ns, pid);
    record.cookie = cookie;
    record.tuple = {.destination_port = 2, .family = AF_INET};
    record.kind = ST_TCP_CLOSE;
    tracker_.on_event(record);
  }
  uint64_t lost(const std::string& source) {
    for (const Loss& loss : shares_.losses(1)) {
      if (loss.source == source) {
        return loss.count;
      }
    }
    return 0;
  }

  MemorySource sink_;
  EventIds ids_{1};
  ProcessRegistry processes_{sink_};
  UserShares shares_;
  NetworkTracker tracker_{ids_,
                          processes_,
                          shares_,
                          sink_,
                          0,
                          250,
                          [](int32_t, int32_t) { return std::string("thread"); },
                          [](int32_t, uint64_t) { return CommunicatorInfo{}; }};
};

TEST_F(NetworkShares, OpenConnections) {
  const size_t most = UserShares::limits(Kind::kConnection).of_process;
  for (uint64_t cookie = 1; cookie <= most + 10; ++cookie) {
    seen(cookie, kNow);
  }
  seen(1 << 20, kNow, kOther);
  EXPECT_THAT(*sink_.connections(), SizeIs(most + 1));
  EXPECT_EQ(lost("share:connection:1000"), 10U);
  EXPECT_EQ(lost("share:connection:2000"), 0U);
}

/// A connection that closes makes room a few seconds later.
TEST_F(NetworkShares, ConnectionsThatComeAndGo) {
  const uint64_t made = 3 * UserShares::limits(Kind::kConnection).of_process;
  for (uint64_t cookie = 1; cookie <= made; ++cookie) {
    const uint64_t at_ns = kNow + cookie * 10'000'000;  // 100 a second
    seen(cookie, at_ns);
    closed(cookie, at_ns + 1);
  }
  EXPECT_EQ(lost("share:connection:1000"), 0U);
  EXPECT_THAT(*sink_.connections(), SizeIs(made));
}

/// The records of their closes may be lost.
TEST_F(NetworkShares, AnEndedProcessLeavesNothing) {
  for (uint64_t round = 0; round < 5; ++round) {
    const uint64_t at_ns = kNow + round * 100'000'000'000;
    for (uint64_t cookie = 1; cookie <= 10'000; ++cookie) {
      seen(round * 10'000 + cookie, at_ns);
    }
    tracker_.on_exit(kPid, at_ns + 1);
    shares_.end(kPid);
    ASSERT_TRUE(shares_.begin(kPid, 1000, static_cast<int64_t>(at_ns)));
  }
  EXPECT_EQ(lost("share:connection:1000"), 0U);
}

TEST_F(NetworkShares, MarksOfConnectionsMadeUp) {
  seen(1, kNow);
  const size_t most = UserShares::limits(Kind::kStepMark).of_process;
  for (uint64_t comm = 1; comm <= most + 10; ++comm) {
    mark(comm, 1);
  }
  EXPECT_EQ(lost("share:step_mark:1000"), 10U);
}

TEST_F(NetworkShares, MarksOfConnectionsMadeUpKeepNothing) {
  const size_t most = UserShares::limits(Kind::kStepMark).of_process;
  for (uint64_t made_up = 1; made_up <= most + 10; ++made_up) {
    mark(made_up, made_up);
  }
  EXPECT_EQ(lost("share:step_mark:1000"), 0U);
}

}  // namespace
}  // namespace stalltrace::capture
