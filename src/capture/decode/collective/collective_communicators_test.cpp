// SPDX-License-Identifier: Apache-2.0
// Communicators: from calls that make, query and destroy them; ranks where no such call was seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "capture/decode/collective/unique_id.h"
#include "capture/testing/tracked_calls.h"

namespace stalltrace::capture {
namespace {

using testing::Optional;
using testing::SizeIs;

TEST_F(CollectiveTrackerTest, ACommunicatorIsKnownByItsIdAndNumbersItsRank) {
  make_comm(500, 8, 3);
  ASSERT_THAT(communicators(), SizeIs(1));
  const Communicator comm = last_comm();
  const st_comm_init record = init("ncclCommInitRank", 0, 0, 0);
  const auto id = std::as_bytes(std::span(record.id));
  EXPECT_EQ(comm.comm_id_hash, comm_id_hash(id));
  EXPECT_EQ(comm.nccl_comm_hash, nccl_comm_hash(id));
  EXPECT_EQ(comm.comm_ptr, kComm);
  EXPECT_THAT(comm.rank, Optional(3));
  EXPECT_THAT(comm.nranks, Optional(8));
  EXPECT_EQ(comm.rank_source, RankSource::kInit);
  EXPECT_EQ(comm.created_ns, utc(500));
  const Collective call = only(Operation::kCommInitRank);
  EXPECT_EQ(call.comm_ptr, kComm);
  EXPECT_EQ(call.comm_id_hash, comm.comm_id_hash);
  EXPECT_EQ(call.completion, Completion::kCall);
  EXPECT_THAT(call.duration_ns, Optional(10));
}

TEST_F(CollectiveTrackerTest, AnInitialisationThatHangsIsOpenWithItsRank) {
  tracker_.on_comm_init(init("ncclCommInitRankConfig", 500, 8, 3));
  tracker_.deliver_open();
  const Collective call = only(Operation::kCommInitRank);
  EXPECT_EQ(call.completion, Completion::kOpen);
  EXPECT_THAT(call.rank, Optional(3));
  EXPECT_NE(call.comm_id_hash, 0U);
  EXPECT_THAT(communicators(), SizeIs(0));
}

TEST_F(CollectiveTrackerTest, AFailedInitialisationMakesNoCommunicator) {
  tracker_.on_comm_init(init("ncclCommInitRank", 500, 8, 3));
  st_call_return failed = returned("ncclCommInitRank", 500, 900, 2);
  failed.value = kComm;
  tracker_.on_return(failed);
  EXPECT_THAT(communicators(), SizeIs(0));
  EXPECT_THAT(only(Operation::kCommInitRank).return_code, Optional(2));
  EXPECT_EQ(only(Operation::kCommInitRank).completion, Completion::kCall);
}

TEST_F(CollectiveTrackerTest, ADestroyedCommunicatorSaysWhen) {
  make_comm(500, 8, 3);
  tracker_.on_entry(entry("ncclCommDestroy", 2000));
  tracker_.on_return(returned("ncclCommDestroy", 2000, 2400));
  EXPECT_THAT(last_comm().destroyed_ns, Optional(utc(2400)));
  const Collective call = only(Operation::kCommDestroy);
  EXPECT_THAT(call.rank, Optional(3));
  EXPECT_EQ(call.comm_id_hash, last_comm().comm_id_hash);
  EXPECT_EQ(call.seq, std::nullopt);
}

TEST_F(CollectiveTrackerTest, ASplitHasItsParentAndAHashThatItsMembersShare) {
  make_comm(500, 8, 3);
  const CommHash parent = last_comm().comm_id_hash;
  st_comm_init split = init("ncclCommSplit", 1000, -1, -1);
  split.has_id = 0;
  split.parent_comm = kComm;
  split.color = 1;
  split.key = 9;
  tracker_.on_comm_init(split);
  st_call_return done = returned("ncclCommSplit", 1000, 1500);
  done.value = 0x5917;
  tracker_.on_return(done);
  const Communicator comm = last_comm();
  EXPECT_EQ(comm.parent_hash, parent);
  EXPECT_EQ(comm.comm_id_hash, split_comm_hash(parent, 0, 1));
  EXPECT_THAT(comm.split_color, Optional(1));
  EXPECT_THAT(comm.split_key, Optional(9));
  EXPECT_EQ(comm.rank, std::nullopt);
  EXPECT_EQ(comm.rank_source, RankSource::kUnknown);
}

TEST_F(CollectiveTrackerTest, ARankLeftOutOfASplitHasNoCommunicatorButCountsIt) {
  make_comm(500, 8, 3);
  const CommHash parent = last_comm().comm_id_hash;
  for (const int color : {-1, 4}) {
    st_comm_init split = init("ncclCommSplit", 1000, -1, -1);
    split.has_id = 0;
    split.parent_comm = kComm;
    split.color = color;
    tracker_.on_comm_init(split);
    st_call_return done = returned("ncclCommSplit", 1000, 1500);
    done.value = color < 0 ? 0 : 0x5917;
    tracker_.on_return(done);
  }
  ASSERT_THAT(communicators(), SizeIs(2));
  EXPECT_EQ(last_comm().comm_id_hash, split_comm_hash(parent, 1, 4));
}

TEST_F(CollectiveTrackerTest, NcclsMemoryShowsWhichOneWasMadeBefore) {
  const auto show = [&](uint64_t hash, int32_t rank, int32_t nranks) {
    st_nccl_identity record{};
    record.header = entry("ncclAllReduce", 1050).header;  // read while the call begins, and before its record comes
    record.comm = kComm;
    record.fields = {.hash = hash, .rank = rank, .nranks = nranks};
    tracker_.on_nccl_identity(record);
  };
  show(0, 3, 8);  // could not be read
  show(0xabc, 8, 8);
  show(0xabc, -1, 8);
  EXPECT_THAT(communicators(), SizeIs(0));
  show(0xabc, 3, 8);
  launch("ncclAllReduce", 1000);
  const Communicator comm = last_comm();
  EXPECT_EQ(comm.nccl_comm_hash, 0xabcU);
  EXPECT_EQ(comm.comm_id_hash, 0U) << "its calls have no number that other ranks share";
  EXPECT_THAT(comm.rank, Optional(3));
  EXPECT_THAT(comm.nranks, Optional(8));
  EXPECT_EQ(comm.rank_source, RankSource::kMemory);
  tracker_.deliver_open();
  EXPECT_THAT(only(Operation::kAllReduce).rank, Optional(3));
  EXPECT_EQ(only(Operation::kAllReduce).rank_source, RankSource::kMemory);
  EXPECT_EQ(only(Operation::kAllReduce).called_ns, comm.created_ns) << "no call is from before its communicator";
  show(0xdef, 1, 2);
  EXPECT_EQ(last_comm().nccl_comm_hash, 0xabcU);
}

/// NCCL counts the calls of a group when it ends: within one a reading shows too few.
TEST_F(CollectiveTrackerTest, HowManyCallsCameBeforeIsKnownFromTwoReadings) {
  uint64_t sequence = 0;
  const auto call = [&](uint64_t launched, const char* function = "ncclAllReduce") {
    st_nccl_identity record{};
    record.header = entry(function, 1000 + 10 * sequence).header;
    record.comm = kComm;
    record.fields = {.hash = 0xabc, .rank = 3, .nranks = 8};
    record.launched = launched;
    record.sequence = sequence;
    tracker_.on_nccl_identity(record);
    st_call_entry called = entry(function, 1000 + 10 * sequence);
    called.comm = kComm;
    called.sequence = sequence++;
    tracker_.on_entry(called);
    return last_comm().calls_before;
  };
  EXPECT_EQ(call(98), std::nullopt) << "within a group that began before tracing, with two calls before";
  EXPECT_EQ(call(98), std::nullopt);
  EXPECT_EQ(call(102), std::nullopt) << "the first call after it: the largest so far";
  EXPECT_THAT(call(103), Optional(100));
  EXPECT_THAT(call(103), Optional(100)) << "the second one of a group";
  EXPECT_EQ(call(105, "ncclAlltoAll"), std::nullopt) << "NCCL does not count it, and its number counts";
  EXPECT_EQ(call(105), std::nullopt);
  EXPECT_EQ(call(106), std::nullopt);
}

TEST_F(CollectiveTrackerTest, NcclsMemoryAddsNothingToAnInitialisationThatWasSeen) {
  make_comm(500, 8, 3);
  const CommHash hash = last_comm().nccl_comm_hash;
  st_nccl_identity record{};
  record.header = entry("ncclAllReduce", 900).header;
  record.comm = kComm;
  record.fields = {.hash = 0xabc, .rank = 1, .nranks = 2};
  tracker_.on_nccl_identity(record);
  EXPECT_EQ(last_comm().nccl_comm_hash, hash);
  EXPECT_THAT(last_comm().rank, Optional(3));
  EXPECT_EQ(last_comm().rank_source, RankSource::kInit);
}

TEST_F(CollectiveTrackerTest, AQueryNamesTheRankOfASplit) {
  st_call_return query = returned("ncclCommUserRank", 1000, 1010);
  query.value = 5;
  tracker_.on_return(query);
  query = returned("ncclCommCount", 1020, 1030);
  query.value = 16;
  tracker_.on_return(query);
  EXPECT_THAT(last_comm().rank, Optional(5));
  EXPECT_THAT(last_comm().nranks, Optional(16));
}

/// Arguments, and what libraries wrote, are the process's (found by the fuzz target `records`).
TEST_F(CollectiveTrackerTest, ANumberOfRanksThatNoJobCanHaveIsUnknown) {
  make_comm(500, 0, 0);
  EXPECT_EQ(last_comm().nranks, std::nullopt);

  st_call_return query = returned("ncclCommCount", 1000, 1010);
  for (const uint64_t none : {uint64_t{0}, uint64_t{0xffff'ffff}}) {
    query.value = none;
    tracker_.on_return(query);
    EXPECT_EQ(last_comm().nranks, std::nullopt) << none;
  }
  query = returned("ncclCommUserRank", 1020, 1030);
  query.value = 0xffff'ffff;
  tracker_.on_return(query);
  EXPECT_THAT(last_comm().rank, Optional(0));

  st_call_entry call = entry("_ZN4gloo6reduceERNS_13ReduceOptionsE", 2000);
  call.comm = kComm + 1;
  call.comm_rank = 1;
  call.comm_size = 0;
  tracker_.on_entry(call);
  EXPECT_THAT(last_comm().rank, Optional(1));
  EXPECT_EQ(last_comm().nranks, std::nullopt);
}

TEST_F(CollectiveTrackerTest, ACountThatNoCallCanHaveIsUnknown) {
  uint64_t sequence = 0;
  for (const uint64_t count : {~uint64_t{0}, uint64_t{1} << 62U, uint64_t{1} << 52U}) {
    st_call_entry call = entry("ncclAllReduce", 1000 * (sequence + 1), sequence);
    call.count = count;
    tracker_.on_entry(call);
    tracker_.on_return(returned("ncclAllReduce", 1000 * (sequence + 1), 1000 * (sequence + 1) + 500));
    ++sequence;
  }
  tracker_.on_sync(synced("cudaStreamSynchronize", 10'000, 20'000));
  EXPECT_THAT(rows(), SizeIs(3));
  for (const Collective& row : rows()) {
    EXPECT_EQ(row.count, std::nullopt);
    EXPECT_EQ(row.bytes, 0);
  }
}

/// So it is where the record of a new communicator at the same address was lost (found by the fuzz target `records`).
TEST_F(CollectiveTrackerTest, CallsWithAPeerThatAreNumberedAnewBeginAtZero) {
  for (const uint64_t number : {7, 8, 0, 1}) {
    st_call_entry call = entry("ncclSend", 1000 * (number + 1), number);
    call.peer = 3;
    tracker_.on_entry(call);
    tracker_.on_return(returned("ncclSend", 1000 * (number + 1), 1000 * (number + 1) + 500));
  }
  tracker_.on_sync(synced("cudaStreamSynchronize", 10'000, 20'000));
  std::vector<int64_t> numbers;
  for (const Collective& row : rows()) {
    numbers.push_back(row.seq.value_or(-1));
  }
  EXPECT_THAT(numbers, testing::UnorderedElementsAre(0, 1, 0, 1));
}

/// Found by the fuzz target `records`.
TEST_F(CollectiveTrackerTest, AReturnFromAnotherCallThanTheOneInFlightIsLeftOut) {
  tracker_.on_entry(entry("ncclAllReduce", 1000, 0));
  for (const char* made : {"ncclCommInitRank", "ncclCommInitAll", "ncclCommSplit"}) {
    st_call_return other = returned(made, 1000, 1500);
    other.value = 0x700;
    tracker_.on_return(other);
  }
  for (const Communicator& comm : communicators()) {
    EXPECT_NE(comm.comm_ptr, 0x700U);  // only that of the call in flight
  }
  tracker_.on_return(returned("ncclAllReduce", 1000, 2000));
  tracker_.on_sync(synced("cudaStreamSynchronize", 3000, 4000));
  const std::vector<Collective> calls = rows();
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_THAT(calls[0].launch_ns, Optional(1000));
}

TEST_F(CollectiveTrackerTest, InitAllMakesACommunicatorForEachDevice) {
  st_comm_init all = init("ncclCommInitAll", 1000, 3, -1);
  all.has_id = 0;
  tracker_.on_comm_init(all);
  for (uint64_t i = 0; i < 3; ++i) {
    st_call_return member = returned("ncclCommInitAll", 1000, 2000);
    member.comm = i;
    member.value = 0x100 + i;
    tracker_.on_return(member);
  }
  const auto comms = communicators();
  ASSERT_THAT(comms, SizeIs(3));
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_THAT(comms[static_cast<size_t>(i)].rank, Optional(i));
    EXPECT_EQ(comms[static_cast<size_t>(i)].comm_ptr, 0x100U + static_cast<uint64_t>(i));
  }
  EXPECT_EQ(only(Operation::kCommInitAll).completion, Completion::kCall);
}

/// A call that made no communicator sends the record of one member only.
TEST_F(CollectiveTrackerTest, AFailedInitAllEnds) {
  st_comm_init all = init("ncclCommInitAll", 1000, 100, -1);
  all.has_id = 0;
  tracker_.on_comm_init(all);
  tracker_.on_return(returned("ncclCommInitAll", 1000, 2000, 4));
  EXPECT_EQ(only(Operation::kCommInitAll).completion, Completion::kCall);
  EXPECT_THAT(only(Operation::kCommInitAll).return_code, Optional(4));
  EXPECT_THAT(communicators(), SizeIs(0));
}

TEST_F(CollectiveTrackerTest, InitAllOfNoDevicesEndsAndMakesNone) {
  st_comm_init all = init("ncclCommInitAll", 1000, 0, -1);
  all.has_id = 0;
  tracker_.on_comm_init(all);
  st_call_return done = returned("ncclCommInitAll", 1000, 2000);
  done.comm = 0;
  done.value = 0x6a4ba6e;  // arbitrary content of the caller's array
  tracker_.on_return(done);
  EXPECT_EQ(only(Operation::kCommInitAll).completion, Completion::kCall);
  EXPECT_THAT(communicators(), SizeIs(0));
}

TEST_F(CollectiveTrackerTest, InitAllOfMoreDevicesThanAreReportedEndsWithTheLastReported) {
  st_comm_init all = init("ncclCommInitAll", 1000, ST_MAX_LOCAL_RANKS + 8, -1);
  all.has_id = 0;
  tracker_.on_comm_init(all);
  for (uint64_t i = 0; i < ST_MAX_LOCAL_RANKS; ++i) {
    st_call_return member = returned("ncclCommInitAll", 1000, 2000);
    member.comm = i;
    member.value = 0x100 + i;
    tracker_.on_return(member);
  }
  EXPECT_EQ(only(Operation::kCommInitAll).completion, Completion::kCall);
}

TEST_F(CollectiveTrackerTest, AnUnknownCommunicatorHasTheEnvironmentsRankAndNoHash) {
  processes_.add(Process{.node_id = kNode,
                         .pid = kPid,
                         .start_ns = 1,
                         .rank = 6,
                         .rank_source = RankSource::kEnvironment,
                         .world_size = 16});
  launch("ncclAllReduce", 1000);
  tracker_.deliver_open();
  const Collective row = only(Operation::kAllReduce);
  EXPECT_THAT(row.rank, Optional(6));
  EXPECT_EQ(row.rank_source, RankSource::kEnvironment);
  EXPECT_THAT(row.nranks, Optional(16));
  EXPECT_EQ(row.comm_id_hash, 0U);
}

TEST_F(CollectiveTrackerTest, AnUnknownCommunicatorIsNeverRankZero) {
  launch("ncclAllReduce", 1000);
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllReduce).rank, std::nullopt);
  EXPECT_EQ(only(Operation::kAllReduce).rank_source, RankSource::kUnknown);
}

}  // namespace
}  // namespace stalltrace::capture
