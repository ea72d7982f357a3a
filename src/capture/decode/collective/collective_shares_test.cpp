// SPDX-License-Identifier: Apache-2.0
// What programs make that never end what they begin, and how much of it is kept.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "capture/testing/tracked_calls.h"

namespace stalltrace::capture {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using Kind = UserShares::Kind;

class CollectiveShares : public CollectiveTrackerTest {
 protected:
  void SetUp() override { ASSERT_TRUE(shares_.begin(kPid, 1000, 1)); }
  std::map<std::string, uint64_t> losses() {
    std::map<std::string, uint64_t> sums;
    for (const Loss& loss : shares_.losses(kNode)) {
      sums[loss.source] = loss.count;
    }
    return sums;
  }
  /// A hundred a second.
  void make_and_destroy(uint64_t count) {
    for (uint64_t number = 0; number < count; ++number) {
      const uint64_t at_ns = 1'000'000'000 + number * 10'000'000;
      const uint64_t comm = 0x1000 + 16 * number;
      make_comm(at_ns, 4, 1, comm);
      st_call_entry record = entry("ncclCommDestroy", at_ns + 100);
      record.comm = comm;
      tracker_.on_entry(record);
      tracker_.on_return(returned("ncclCommDestroy", at_ns + 100, at_ns + 200));
    }
  }
  void member(uint64_t at_ns, uint64_t sequence) {
    st_call_entry record = entry("ncclAllReduce", at_ns, sequence);
    record.flags |= ST_CALL_IN_GROUP;
    record.group_id = 1;
    tracker_.on_entry(record);
    st_call_return back = returned("ncclAllReduce", at_ns, at_ns + 10);
    back.flags |= ST_CALL_IN_GROUP;
    back.group_id = 1;
    tracker_.on_return(back);
  }
};

/// Each call used to walk all members before it: a hundred thousand took minutes.
TEST_F(CollectiveShares, MembersOfAGroupThatNeverEnds) {
  constexpr uint64_t kCalls = 100'000;
  const auto begun = std::chrono::steady_clock::now();
  for (uint64_t call = 0; call < kCalls; ++call) {
    member(1000 + call * 100, call);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
  EXPECT_THAT(rows(), SizeIs(kCalls - OpenCalls::kMostNotLaunched));  // the others wait
  EXPECT_EQ(losses()["share:call:1000"], kCalls - OpenCalls::kMostNotLaunched);
  tracker_.deliver_open();
  EXPECT_THAT(rows(), SizeIs(kCalls));
}

TEST_F(CollectiveShares, ALargeGroupThatEndsLosesNothing) {
  constexpr uint64_t kMembers = 10'000;
  for (uint64_t call = 0; call < kMembers; ++call) {
    member(1000 + call * 100, call);
  }
  constexpr uint64_t kEnd = 1000 + kMembers * 100;
  st_call_entry end = entry("ncclGroupEnd", kEnd);
  end.group_started_ns = 500;
  tracker_.on_entry(end);
  tracker_.on_return(returned("ncclGroupEnd", kEnd, kEnd + 10));
  tracker_.deliver_open();
  const auto all = rows();
  EXPECT_EQ(std::ranges::count_if(all, [](const Collective& row) { return row.launch_ns.has_value(); }),
            static_cast<int64_t>(kMembers) + 1);
  EXPECT_TRUE(losses().empty());
}

TEST_F(CollectiveShares, CommunicatorsMadeUp) {
  constexpr uint64_t kCalls = 60'000;
  for (uint64_t call = 0; call < kCalls; ++call) {
    st_call_entry record = entry("ncclAllReduce", 1000 + call * 100);
    record.comm = 0x1000 + 16 * call;
    tracker_.on_entry(record);
  }
  const size_t most = UserShares::limits(Kind::kCommunicator).of_process;
  EXPECT_THAT(communicators(), SizeIs(most));
  EXPECT_EQ(losses()["share:communicator:1000"], kCalls - most);
}

/// As an MPI program that splits and frees again and again.
TEST_F(CollectiveShares, CommunicatorsThatWereDestroyedMakeRoom) {
  make_and_destroy(3 * UserShares::limits(Kind::kCommunicator).of_process);
  EXPECT_TRUE(losses().empty()) << losses().begin()->first;
}

/// Many ranks of a node, none of which has had its own share.
TEST_F(CollectiveShares, CommunicatorsThatWereDestroyedMakeRoomWhereTheUserHasAll) {
  const UserShares::Limits& most = UserShares::limits(Kind::kCommunicator);
  const auto others = static_cast<int32_t>(most.of_user / most.of_process);
  for (int32_t other = 1; other <= others; ++other) {
    ASSERT_TRUE(shares_.begin(kPid + other, 1000, 1));
    ASSERT_TRUE(shares_.take(kPid + other, Kind::kCommunicator, 0, most.of_process - (other == 1 ? 8 : 0)));
  }
  make_and_destroy(100);
  EXPECT_TRUE(losses().empty()) << losses().begin()->first;
}

TEST_F(CollectiveShares, PeersMadeUp) {
  const auto most = UserShares::limits(Kind::kPeer).of_process;
  for (uint64_t peer = 0; peer < most + 10; ++peer) {
    st_call_entry record = entry("ncclSend", 1000 + peer * 100);
    record.peer = static_cast<int32_t>(peer);
    tracker_.on_entry(record);
  }
  EXPECT_EQ(losses()["share:peer:1000"], 10U);
}

TEST_F(CollectiveShares, GpuEventsThatAreNotWaitedFor) {
  const uint64_t most = UserShares::limits(Kind::kGpuEvent).of_process;
  launch("ncclAllReduce", 1000, 0);
  for (uint64_t event = 1; event <= most + 10; ++event) {
    st_sync record = synced("cudaEventRecord", 30'000'000 + event, 30'000'000 + event);
    record.event = event;
    tracker_.on_sync(record);
  }
  EXPECT_EQ(losses()["share:gpu_event:1000"], 10U);
}

/// PyTorch records an event after each collective, and its CPU may be hundreds of them ahead of the device.
TEST_F(CollectiveShares, AnEventAfterEachOfManyCallsIsOneEvent) {
  constexpr uint64_t kCalls = 2000;
  for (uint64_t call = 0; call < kCalls; ++call) {
    launch("ncclAllReduce", 1000 + call * 10'000, call);
    st_sync record = synced("cudaEventRecord", 6000 + call * 10'000, 6000 + call * 10'000);
    record.event = 1 + call;
    tracker_.on_sync(record);
  }
  EXPECT_TRUE(losses().empty()) << losses().begin()->first;
  st_sync last = synced("cudaEventSynchronize", 30'000'000, 31'000'000);
  last.event = kCalls;
  tracker_.on_sync(last);
  tracker_.deliver_open();
  EXPECT_EQ(std::ranges::count(rows(), Completion::kSync, &Collective::completion), kCalls);
}

/// Processes of one user take from one share; the process itself gives up its oldest call for a new one.
TEST_F(CollectiveShares, CallsOfAUsersManyProcesses) {
  const size_t most = UserShares::limits(Kind::kCall).of_user;
  ASSERT_TRUE(shares_.begin(1, 1000, 1));
  ASSERT_TRUE(shares_.take(1, Kind::kCall, 0, most - 1));
  launch("ncclAllReduce", 1000, 0);
  launch("ncclAllReduce", 20'000, 1);
  EXPECT_TRUE(losses().empty());   // as with a process's own bound: only its end is unknown
  EXPECT_THAT(rows(), SizeIs(1));  // given up: it stays open
  tracker_.deliver_open();
  EXPECT_THAT(rows(), SizeIs(2));
  ASSERT_TRUE(shares_.begin(2, 1000, 1));
  EXPECT_FALSE(shares_.take(2, Kind::kCall));
  EXPECT_THAT(losses(), ElementsAre(testing::Pair("share:call:1000", 1)));
}

TEST_F(CollectiveShares, WhatAProcessHeldIsGivenBackAtItsEnd) {
  for (int round = 0; round < 40; ++round) {
    for (uint64_t call = 0; call < 4000; ++call) {
      launch("ncclAllReduce", 1000 + call * 10'000, call);
    }
    tracker_.on_exit(kPid);
    shares_.end(kPid);
    ASSERT_TRUE(shares_.begin(kPid, 1000, 1));
  }
  EXPECT_TRUE(losses().empty());
}

}  // namespace
}  // namespace stalltrace::capture
