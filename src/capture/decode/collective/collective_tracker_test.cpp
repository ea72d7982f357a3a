// SPDX-License-Identifier: Apache-2.0
// Call records in, rows out: single calls, groups, calls without a return or an entry.
#include "capture/decode/collective/collective_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "capture/testing/tracked_calls.h"

namespace stalltrace::capture {
namespace {

using testing::ElementsAre;
using testing::Optional;
using testing::SizeIs;

TEST_F(CollectiveTrackerTest, EntryAndReturnMakeALaunchNotADuration) {
  make_comm(10, 8, 3);
  launch("ncclAllReduce", 1000, 4);
  tracker_.deliver_open();
  const Collective row = only(Operation::kAllReduce);
  EXPECT_EQ(node_of(row.event_id), kNode);
  EXPECT_EQ(row.node_id, kNode);
  EXPECT_EQ(row.timestamp_ns, utc(1000));
  EXPECT_EQ(row.called_ns, utc(1000));
  EXPECT_EQ(row.duration_ns, std::nullopt);
  EXPECT_EQ(row.completion, Completion::kOpen);
  EXPECT_THAT(row.launch_ns, Optional(5000));
  EXPECT_THAT(row.return_code, Optional(0));
  EXPECT_THAT(row.seq, Optional(4));
  EXPECT_THAT(row.rank, Optional(3));
  EXPECT_EQ(row.rank_source, RankSource::kInit);
  EXPECT_THAT(row.nranks, Optional(8));
  EXPECT_EQ(row.comm_ptr, kComm);
  EXPECT_EQ(row.comm_id_hash, last_comm().comm_id_hash);
  EXPECT_EQ(row.pid, kPid);
  EXPECT_EQ(row.tid, static_cast<int32_t>(kTid));
  EXPECT_THAT(row.count, Optional(256));
  EXPECT_THAT(row.datatype, Optional(7));
  EXPECT_EQ(row.bytes, 1024);
  EXPECT_EQ(row.reduce_op, std::nullopt);
  EXPECT_EQ(row.peer, std::nullopt);
  EXPECT_EQ(row.stream, kStream);
}

TEST_F(CollectiveTrackerTest, ACallThatHasNotReturnedIsDeliveredOpenOnceAndAgainWhenItChanges) {
  tracker_.on_entry(entry("ncclAllReduce", 1000));
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllReduce).launch_ns, std::nullopt);
  tracker_.on_return(returned("ncclAllReduce", 1000, 900'000'000));
  tracker_.deliver_open();
  EXPECT_THAT(only(Operation::kAllReduce).launch_ns, Optional(899'999'000));
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
}

TEST_F(CollectiveTrackerTest, StandingSaysWhoIsInsideAndSinceWhen) {
  make_comm(10, 8, 3);
  EXPECT_THAT(tracker_.standings(), SizeIs(0)) << "a set-up moves no data";
  launch("ncclAllReduce", 1 * kMs, 4);
  ASSERT_THAT(tracker_.standings(), SizeIs(1));
  CallStanding standing = tracker_.standings()[0];
  EXPECT_EQ(standing.pid, kPid);
  EXPECT_TRUE(standing.inside);
  EXPECT_TRUE(standing.launched);
  EXPECT_NE(standing.communicator, 0U);
  EXPECT_EQ(standing.seq, 4);
  EXPECT_FALSE(standing.waits_by_design);
  EXPECT_EQ(standing.entered_ns, utc(1 * kMs));
  EXPECT_EQ(standing.ended_ns, 0);
  tracker_.on_sync(synced("cudaStreamSynchronize", 2 * kMs, 9 * kMs));
  standing = tracker_.standings()[0];
  EXPECT_FALSE(standing.inside);
  EXPECT_EQ(standing.ended_ns, utc(9 * kMs));
  launch("ncclSend", 33 * kMs, 5);
  standing = tracker_.standings()[0];
  EXPECT_TRUE(standing.inside);
  EXPECT_TRUE(standing.waits_by_design);
  EXPECT_EQ(standing.usual_gap_ns, static_cast<int64_t>(2 * kMs)) << "32 ms, smoothed over 16 calls";
  tracker_.on_exit(kPid);
  EXPECT_THAT(tracker_.standings(), SizeIs(0));
}

TEST_F(CollectiveTrackerTest, GroupMembersGetTheGroupsLaunchAndArrival) {
  tracker_.on_return(returned("ncclGroupStart", 900, 910));
  for (const uint64_t at : {1000, 2000}) {
    st_call_entry member = entry("ncclAllReduce", at, at / 1000 - 1);
    member.flags = ST_CALL_IN_GROUP;
    member.group_id = 900;
    tracker_.on_entry(member);
    st_call_return done = returned("ncclAllReduce", at, at + 50);
    done.flags = ST_CALL_IN_GROUP;
    tracker_.on_return(done);
  }
  st_call_entry end = entry("ncclGroupEnd", 3000);
  end.comm = 0;
  end.flags = ST_CALL_IN_GROUP;
  end.group_id = end.group_started_ns = 900;
  tracker_.on_entry(end);
  tracker_.deliver_open();
  for (const Collective& row : rows()) {  // in ncclGroupEnd: arrived, not launched
    EXPECT_EQ(row.timestamp_ns, utc(3000)) << to_text(row.op);
    EXPECT_EQ(row.launch_ns, std::nullopt) << to_text(row.op);
  }
  tracker_.on_return(returned("ncclGroupEnd", 3000, 7000));
  tracker_.deliver_open();
  ASSERT_THAT(rows(), SizeIs(3));
  for (const Collective& row : rows()) {
    EXPECT_EQ(row.timestamp_ns, utc(3000)) << to_text(row.op);
    EXPECT_THAT(row.launch_ns, Optional(4000)) << to_text(row.op);
    EXPECT_EQ(row.group_id, 900U);
  }
  EXPECT_EQ(rows()[0].called_ns, utc(1000));
  EXPECT_EQ(rows()[1].called_ns, utc(2000));
  EXPECT_EQ(rows()[2].op, Operation::kGroup);
  EXPECT_EQ(rows()[2].called_ns, utc(900));
  EXPECT_EQ(rows()[2].completion, Completion::kCall);

  tracker_.on_sync(synced("cudaStreamSynchronize", 8000, 9000));
  EXPECT_EQ(rows()[0].completion, Completion::kSync);
  EXPECT_THAT(rows()[0].duration_ns, Optional(6000));
}

TEST_F(CollectiveTrackerTest, MembersOfARefusedGroupEndWithIt) {
  st_call_entry member = entry("ncclSend", 1000);
  member.peer = 1;
  member.flags = ST_CALL_IN_GROUP;
  tracker_.on_entry(member);
  st_call_return done = returned("ncclSend", 1000, 1010);
  done.flags = ST_CALL_IN_GROUP;
  tracker_.on_return(done);
  tracker_.on_entry(entry("ncclGroupEnd", 2000));
  tracker_.on_return(returned("ncclGroupEnd", 2000, 2500, 5));
  const Collective row = only(Operation::kSend);
  EXPECT_EQ(row.completion, Completion::kCall);
  EXPECT_THAT(row.return_code, Optional(5));
}

TEST_F(CollectiveTrackerTest, ARefusedCallEndsAtItsReturn) {
  tracker_.on_entry(entry("ncclAllReduce", 1000));
  tracker_.on_return(returned("ncclAllReduce", 1000, 1600, 4));
  const Collective row = only(Operation::kAllReduce);
  EXPECT_EQ(row.completion, Completion::kCall);
  EXPECT_THAT(row.duration_ns, Optional(600));
  EXPECT_THAT(row.return_code, Optional(4));
}

TEST_F(CollectiveTrackerTest, ACallInProgressIsNotRefused) {
  tracker_.on_entry(entry("ncclAllReduce", 1000));
  tracker_.on_return(returned("ncclAllReduce", 1000, 1600, 7));
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
}

TEST_F(CollectiveTrackerTest, AReturnWithoutItsEntryChangesNothing) {
  tracker_.on_return(returned("ncclAllReduce", 1000, 1600));
  tracker_.on_entry(entry("ncclAllReduce", 2000));
  tracker_.on_return(returned("ncclAllReduce", 1000, 2600));  // return of another call
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllReduce).launch_ns, std::nullopt);
}

TEST_F(CollectiveTrackerTest, RowsOutsideTheTableAreIgnored) {
  st_call_entry bad_entry = entry("ncclAllReduce", 1000);
  bad_entry.row = 9999;
  tracker_.on_entry(bad_entry);
  st_call_return bad_return = returned("ncclAllReduce", 1000, 2000);
  bad_return.row = 9999;
  tracker_.on_return(bad_return);
  st_comm_init bad_init = init("ncclCommInitRank", 1000, 2, 0);
  bad_init.row = 9999;
  tracker_.on_comm_init(bad_init);
  tracker_.deliver_open();
  EXPECT_THAT(rows(), SizeIs(0));
}

TEST_F(CollectiveTrackerTest, ACallWhoseReturnWasLostIsLaunchedByTheNextOne) {
  tracker_.on_entry(entry("ncclAllReduce", 1000));
  launch("ncclAllGather", 10'000, 1);
  tracker_.on_sync(synced("cudaStreamSynchronize", 20'000, 50'000));
  const Collective ended = only(Operation::kAllReduce);
  EXPECT_EQ(ended.completion, Completion::kSync);
  EXPECT_THAT(ended.duration_ns, Optional(49'000));
  EXPECT_EQ(ended.launch_ns, std::nullopt);
}

TEST_F(CollectiveTrackerTest, AnExitDeliversWhatIsOpenAndForgetsTheProcess) {
  make_comm(500, 8, 3);
  tracker_.on_entry(entry("ncclAllReduce", 1000));
  tracker_.on_exit(kPid);
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
  EXPECT_EQ(only(Operation::kAllReduce).duration_ns, std::nullopt);
  tracker_.on_sync(synced("cudaDeviceSynchronize", 2000, 3000));  // another process with the same pid
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
  launch("ncclAllGather", 4000);
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllGather).rank, std::nullopt);
}

/// The kernel numbers point-to-point calls by address and peer; a new communicator at an old address starts at 0.
TEST_F(CollectiveTrackerTest, PointToPointNumbersBeginAgainWithANewCommunicatorAtTheSameAddress) {
  make_comm(500, 8, 3);
  const auto send = [&](uint64_t at_ns, int32_t peer, uint64_t kernel_number) {
    st_call_entry record = entry("ncclSend", at_ns, kernel_number);
    record.peer = peer;
    tracker_.on_entry(record);
    tracker_.on_return(returned("ncclSend", at_ns, at_ns + 10));
  };
  send(1000, 1, 0);
  send(1100, 1, 1);
  send(1200, 2, 0);
  make_comm(2000, 8, 3);
  send(3000, 1, 2);
  send(3100, 1, 3);
  send(3200, 2, 1);
  tracker_.deliver_open();
  std::vector<int64_t> numbers;
  for (const Collective& row : rows()) {
    if (row.op == Operation::kSend) {
      numbers.push_back(row.seq.value_or(-1));
    }
  }
  EXPECT_THAT(numbers, ElementsAre(0, 1, 0, 0, 1, 0));
}

TEST_F(CollectiveTrackerTest, TheLibraryComesFromTheFile) {
  tracker_.set_library(kPid, Library::kRccl);
  launch("ncclAllReduce", 1000);
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllReduce).library, Library::kRccl);
}

}  // namespace
}  // namespace stalltrace::capture
