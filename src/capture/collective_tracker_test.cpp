// SPDX-License-Identifier: Apache-2.0
// Records of calls in, rows out: what the tracker makes of every course that a call can take.
#include "capture/collective_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "capture/call_table.h"
#include "capture/unique_id.h"
#include "model/source.h"

namespace stalltrace::capture {
namespace {

using testing::ElementsAre;
using testing::Optional;
using testing::SizeIs;

constexpr NodeId kNode = 7;
constexpr int64_t kOffset = 1'000'000'000'000;
constexpr int32_t kPid = 4711;
constexpr uint32_t kTid = 4712;
constexpr uint64_t kComm = 0xc0113;
constexpr uint64_t kStream = 0x57;
constexpr uint64_t kMs = 1'000'000;

uint16_t row_of(std::string_view symbol) {
  const auto table = call_table();
  for (size_t row = 0; row < table.size(); ++row) {
    if (table[row].symbol == symbol) {
      return static_cast<uint16_t>(row);
    }
  }
  ADD_FAILURE() << symbol;
  return 0;
}

st_header header_of(st_record_type type, uint64_t time_ns, uint32_t tid) {
  return {.type = static_cast<uint16_t>(type),
          .version = ST_WIRE_VERSION,
          .time_ns = time_ns,
          .tgid = static_cast<uint32_t>(kPid),
          .tid = tid};
}

class CollectiveTrackerTest : public testing::Test {
 protected:
  st_call_entry entry(std::string_view symbol, uint64_t time_ns, uint64_t sequence = 0) {
    st_call_entry record{};
    record.header = header_of(ST_RECORD_CALL_ENTRY, time_ns, kTid);
    record.row = row_of(symbol);
    record.comm = kComm;
    record.stream = kStream;
    record.sequence = sequence;
    record.count = 256;
    record.datatype = 7;
    record.reduce_op = record.root = record.peer = record.comm_rank = record.comm_size = -1;
    record.last_net_ns = time_ns;  // bytes are moving: no silence
    return record;
  }
  st_call_return returned(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns, int32_t code = 0) {
    st_call_return record{};
    record.header = header_of(ST_RECORD_CALL_RETURN, time_ns, kTid);
    record.row = row_of(symbol);
    record.entry_ns = entry_ns;
    record.comm = kComm;
    record.return_code = code;
    return record;
  }
  st_sync synced(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns) {
    const uint16_t row = row_of(symbol);
    st_sync record{};
    record.header = header_of(ST_RECORD_SYNC, time_ns, kTid);
    record.entry_ns = entry_ns;
    record.row = row;
    record.kind = call_table()[row].spec.kind;
    record.stream = kStream;
    return record;
  }
  st_comm_init init(std::string_view symbol, uint64_t time_ns, int32_t nranks, int32_t rank) {
    st_comm_init record{};
    record.header = header_of(ST_RECORD_COMM_INIT, time_ns, kTid);
    record.row = row_of(symbol);
    record.nranks = nranks;
    record.rank = rank;
    record.color = -1;
    record.has_id = 1;
    for (size_t i = 0; i < sizeof record.id; ++i) {
      record.id[i] = static_cast<uint8_t>(i + 1);
    }
    return record;
  }

  /// An asynchronous call that was launched.
  void launch(std::string_view symbol, uint64_t at_ns, uint64_t sequence = 0, uint64_t stream = kStream) {
    st_call_entry record = entry(symbol, at_ns, sequence);
    record.stream = stream;
    tracker_.on_entry(record);
    tracker_.on_return(returned(symbol, at_ns, at_ns + 5000));
  }
  void make_comm(uint64_t at_ns, int32_t nranks, int32_t rank, uint64_t comm = kComm) {
    tracker_.on_comm_init(init("ncclCommInitRank", at_ns, nranks, rank));
    st_call_return record = returned("ncclCommInitRank", at_ns, at_ns + 10);
    record.comm = 0;
    record.value = comm;
    tracker_.on_return(record);
  }

  std::vector<Collective> rows() {
    std::vector<Collective> result;
    EXPECT_TRUE(sink_.collectives({}, [&](const Collective& row) { result.push_back(row); }));
    return result;
  }
  Collective only(Operation op) {
    Collective result;
    int found = 0;
    for (const Collective& row : rows()) {
      if (row.op == op) {
        result = row;
        ++found;
      }
    }
    EXPECT_EQ(found, 1) << to_text(op);
    return result;
  }
  std::vector<Communicator> communicators() { return *sink_.communicators(); }
  Communicator last_comm() {
    const auto all = communicators();
    return all.empty() ? Communicator{} : all.back();
  }
  static int64_t utc(uint64_t monotonic_ns) { return static_cast<int64_t>(monotonic_ns) + kOffset; }

  MemorySource sink_;
  EventIds ids_{kNode};
  ProcessRegistry processes_{sink_};
  CollectiveTracker tracker_{ids_, processes_, sink_, kOffset};
};

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
  tracker_.on_return(returned("ncclAllReduce", 1000, 2600));  // another call's
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

TEST_F(CollectiveTrackerTest, AStreamSynchronisationEndsWhatItsStreamHolds) {
  launch("ncclAllReduce", 1000, 0, kStream);
  launch("ncclAllGather", 10'000, 1, kStream + 1);
  tracker_.on_sync(synced("cudaStreamSynchronize", 20'000, 50'000));
  const Collective ended = only(Operation::kAllReduce);
  EXPECT_EQ(ended.completion, Completion::kSync);
  EXPECT_THAT(ended.duration_ns, Optional(49'000));
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllGather).completion, Completion::kOpen);
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

TEST_F(CollectiveTrackerTest, ASynchronisationThatBeganBeforeTheLaunchDoesNotEndIt) {
  launch("ncclAllReduce", 10'000);
  tracker_.on_sync(synced("cudaStreamSynchronize", 9000, 50'000));
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
}

TEST_F(CollectiveTrackerTest, AFailedSynchronisationEndsNothing) {
  launch("ncclAllReduce", 1000);
  st_sync failed = synced("cudaStreamSynchronize", 10'000, 20'000);
  failed.return_code = 700;
  tracker_.on_sync(failed);
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
}

TEST_F(CollectiveTrackerTest, ADeviceSynchronisationEndsAllStreams) {
  launch("ncclAllReduce", 1000, 0, kStream);
  launch("ncclAllGather", 10'000, 1, kStream + 1);
  st_sync device = synced("cudaDeviceSynchronize", 20'000, 50'000);
  device.stream = 0;
  tracker_.on_sync(device);
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kSync);
  EXPECT_EQ(only(Operation::kAllGather).completion, Completion::kSync);
}

/// PyTorch's way: the collective's stream records an event, the compute stream waits for it and is synchronised.
TEST_F(CollectiveTrackerTest, AnEventCarriesACallToTheStreamThatWaitsForIt) {
  constexpr uint64_t kEvent = 0xe;
  constexpr uint64_t kCompute = 0x99;
  launch("ncclAllReduce", 1000);
  st_sync record = synced("cudaEventRecord", 10'000, 10'100);
  record.event = kEvent;
  tracker_.on_sync(record);
  launch("ncclAllGather", 20'000, 1);  // after the event
  st_sync wait = synced("cudaStreamWaitEvent", 30'000, 30'100);
  wait.event = kEvent;
  wait.stream = kCompute;
  tracker_.on_sync(wait);
  st_sync sync = synced("cudaStreamSynchronize", 40'000, 90'000);
  sync.stream = kCompute;
  tracker_.on_sync(sync);
  EXPECT_THAT(only(Operation::kAllReduce).duration_ns, Optional(89'000));
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllGather).completion, Completion::kOpen);
}

TEST_F(CollectiveTrackerTest, AnEventSynchronisationEndsWhatCameBeforeTheRecord) {
  constexpr uint64_t kEvent = 0xe;
  launch("ncclAllReduce", 1000);
  st_sync record = synced("cudaEventRecord", 10'000, 10'100);
  record.event = kEvent;
  tracker_.on_sync(record);
  launch("ncclAllGather", 20'000, 1);
  st_sync sync = synced("cudaEventSynchronize", 40'000, 90'000);
  sync.event = kEvent;
  sync.stream = 0;
  tracker_.on_sync(sync);
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kSync);
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllGather).completion, Completion::kOpen);
}

TEST_F(CollectiveTrackerTest, ALateSynchronisationEndsTheCallAtItsLastByte) {
  launch("ncclAllReduce", 1 * kMs);
  st_sync late = synced("cudaStreamSynchronize", 90 * kMs, 91 * kMs);
  late.net_bytes = 4096;
  late.last_net_ns = 21 * kMs;
  tracker_.on_sync(late);
  const Collective row = only(Operation::kAllReduce);
  EXPECT_EQ(row.completion, Completion::kNetwork);
  EXPECT_THAT(row.duration_ns, Optional(static_cast<int64_t>(20 * kMs)));
}

TEST_F(CollectiveTrackerTest, ASynchronisationThatWaitedForTheTransferIsTheEnd) {
  launch("ncclAllReduce", 1 * kMs);
  st_sync sync = synced("cudaStreamSynchronize", 2 * kMs, 31 * kMs);
  sync.net_bytes = 4096;
  sync.last_net_ns = 30 * kMs;
  tracker_.on_sync(sync);
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kSync);
  EXPECT_THAT(only(Operation::kAllReduce).duration_ns, Optional(static_cast<int64_t>(30 * kMs)));
}

TEST_F(CollectiveTrackerTest, BytesFromBeforeTheCallAreNotItsEnd) {
  st_call_entry record = entry("ncclAllReduce", 10 * kMs);
  record.net_bytes = 4096;
  tracker_.on_entry(record);
  tracker_.on_return(returned("ncclAllReduce", 10 * kMs, 10 * kMs + 5000));
  st_sync sync = synced("cudaStreamSynchronize", 90 * kMs, 91 * kMs);
  sync.net_bytes = 4096;
  sync.last_net_ns = 9 * kMs;
  tracker_.on_sync(sync);
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kSync);
}

/// The next call of a job that never synchronises in a way that is seen.
TEST_F(CollectiveTrackerTest, SilenceAfterEnoughBytesEndsACallThatNobodySynchronises) {
  launch("ncclAllReduce", 1 * kMs);
  st_call_entry next = entry("ncclAllGather", 40 * kMs, 1);
  next.last_net_ns = 21 * kMs;
  next.net_bytes = 1024;
  tracker_.on_entry(next);
  const Collective row = only(Operation::kAllReduce);
  EXPECT_EQ(row.completion, Completion::kNetwork);
  EXPECT_THAT(row.duration_ns, Optional(static_cast<int64_t>(20 * kMs)));
}

TEST_F(CollectiveTrackerTest, SilenceAfterTooFewBytesEndsNothing) {
  launch("ncclAllReduce", 1 * kMs);
  st_call_entry next = entry("ncclAllGather", 240 * kMs, 1);  // silent for a retransmission timeout
  next.last_net_ns = 21 * kMs;
  next.net_bytes = 1023;
  tracker_.on_entry(next);
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
}

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

TEST_F(CollectiveTrackerTest, WhatAnAbortEndsStaysOpenThoughTheSynchronisationReturns) {
  make_comm(500, 8, 3);
  launch("ncclAllReduce", 1000);
  tracker_.on_entry(entry("ncclCommAbort", 9000));
  tracker_.on_sync(synced("cudaStreamSynchronize", 7000, 12'000));
  tracker_.on_return(returned("ncclCommAbort", 9000, 9900));
  const Collective call = only(Operation::kAllReduce);
  EXPECT_EQ(call.completion, Completion::kOpen);
  EXPECT_EQ(call.duration_ns, std::nullopt);
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

/// One record of a member is all that comes of a call that made none.
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
  done.value = 0x6a4ba6e;  // what happened to lie at the caller's array
  tracker_.on_return(done);
  EXPECT_EQ(only(Operation::kCommInitAll).completion, Completion::kCall);
  EXPECT_THAT(communicators(), SizeIs(0));
}

TEST_F(CollectiveTrackerTest, InitAllOfMoreDevicesThanAreToldEndsWithTheLastTold) {
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

/// A job that polls its events and moves no bytes over sockets: what waits for an end is bounded, no row is lost.
TEST_F(CollectiveTrackerTest, CallsThatNobodyEndsAreForgottenTheOldestFirst) {
  constexpr uint64_t kLaunched = 5000;
  for (uint64_t call = 0; call < kLaunched; ++call) {
    launch("ncclAllReduce", 1000 + call * 10'000, call);
  }
  st_sync device = synced("cudaDeviceSynchronize", 1000 + kLaunched * 10'000, 2000 + kLaunched * 10'000);
  device.stream = 0;
  tracker_.on_sync(device);
  const std::vector<Collective> all = rows();
  ASSERT_THAT(all, SizeIs(kLaunched));
  EXPECT_EQ(all.front().completion, Completion::kOpen);
  EXPECT_THAT(all.front().launch_ns, Optional(5000));
  EXPECT_EQ(all.back().completion, Completion::kSync);
  EXPECT_EQ(std::ranges::count(all, Completion::kSync, &Collective::completion), 4096);
}

TEST_F(CollectiveTrackerTest, AnExitDeliversWhatIsOpenAndForgetsTheProcess) {
  make_comm(500, 8, 3);
  tracker_.on_entry(entry("ncclAllReduce", 1000));
  tracker_.on_exit(kPid);
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
  EXPECT_EQ(only(Operation::kAllReduce).duration_ns, std::nullopt);
  tracker_.on_sync(synced("cudaDeviceSynchronize", 2000, 3000));  // another process of the same number
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
  launch("ncclAllGather", 4000);
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllGather).rank, std::nullopt);
}

/// The kernel numbers point-to-point calls by address and peer; a new communicator at an old address begins at 0.
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
