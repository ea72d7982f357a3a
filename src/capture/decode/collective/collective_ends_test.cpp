// SPDX-License-Identifier: Apache-2.0
// When an asynchronous call completed: by streams, by events, by bytes moved, or unobserved.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "capture/testing/tracked_calls.h"

namespace stalltrace::capture {
namespace {

using testing::Optional;
using testing::SizeIs;

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

/// As in PyTorch: the collective's stream records an event; the compute stream waits for it and is synchronised.
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

/// A call whose last byte on the network is long before the synchronisation that ends it.
class EndAtTheLastByteTest : public CollectiveTrackerTest {
 protected:
  static constexpr uint32_t kNeighbour = kPid + 1;

  void make_comm_of(uint32_t pid, uint64_t at_ns, int32_t rank, uint8_t id = 0) {
    st_comm_init begun = init("ncclCommInitRank", at_ns, 4, rank);
    begun.header.tgid = begun.header.tid = pid;
    begun.id[0] ^= id;
    tracker_.on_comm_init(begun);
    st_call_return made = returned("ncclCommInitRank", at_ns, at_ns + 10);
    made.header.tgid = made.header.tid = pid;
    made.comm = 0;
    made.value = kComm;
    tracker_.on_return(made);
  }
  void call_of(uint32_t pid, uint64_t at_ns) {
    st_call_entry called = entry("ncclAllGather", at_ns);
    called.header.tgid = called.header.tid = pid;
    tracker_.on_entry(called);
  }
  Completion completion_of_late_synchronisation(uint64_t bytes = 4096) {
    launch("ncclAllReduce", 1 * kMs);
    st_sync late = synced("cudaStreamSynchronize", 2 * kMs, 91 * kMs);
    late.net_bytes = bytes;
    late.last_net_ns = 21 * kMs;
    tracker_.on_sync(late);
    return only(Operation::kAllReduce).completion;
  }
};

TEST_F(EndAtTheLastByteTest, IsTheTransfersWhereAllOfItIsOnTheNetwork) {
  make_comm_of(kPid, 500, 0);
  EXPECT_EQ(completion_of_late_synchronisation(), Completion::kNetwork);
}

/// The rank waits for its neighbour, by memory that they share or NVLink, when its last byte has left the node.
TEST_F(EndAtTheLastByteTest, IsNotKnownWhereAnotherRankIsOnTheNode) {
  make_comm_of(kPid, 500, 0);
  make_comm_of(kNeighbour, 600, 1);
  EXPECT_EQ(completion_of_late_synchronisation(), Completion::kSync);
}

TEST_F(EndAtTheLastByteTest, IsTheTransfersWhereTheOtherRankIsOfAnotherCommunicator) {
  make_comm_of(kPid, 500, 0);
  make_comm_of(kNeighbour, 600, 1, 0xff);
  EXPECT_EQ(completion_of_late_synchronisation(), Completion::kNetwork);
}

TEST_F(EndAtTheLastByteTest, IsTheTransfersAgainOnceTheOtherRankHasEnded) {
  make_comm_of(kPid, 500, 0);
  make_comm_of(kNeighbour, 600, 1);
  tracker_.on_exit(static_cast<int32_t>(kNeighbour));
  EXPECT_EQ(completion_of_late_synchronisation(), Completion::kNetwork);
}

TEST_F(EndAtTheLastByteTest, IsNotKnownOfAnUnknownCommunicatorBesideOtherRanks) {
  call_of(kNeighbour, 600);
  EXPECT_EQ(completion_of_late_synchronisation(), Completion::kSync);
}

/// As ncclCommInitAll makes them: a process with several devices.
TEST_F(EndAtTheLastByteTest, IsNotKnownWhereTheProcessHasSeveralUnknownCommunicators) {
  st_call_entry other = entry("ncclAllGather", 600);
  other.comm = kComm + 1;
  tracker_.on_entry(other);
  EXPECT_EQ(completion_of_late_synchronisation(), Completion::kSync);
}

TEST_F(EndAtTheLastByteTest, IsNotShownBySilenceWhereAnotherRankIsOnTheNode) {
  make_comm_of(kPid, 500, 0);
  make_comm_of(kNeighbour, 600, 1);
  launch("ncclAllReduce", 1 * kMs);
  st_call_entry next = entry("ncclAllGather", 40 * kMs, 1);
  next.last_net_ns = 21 * kMs;
  next.net_bytes = 4096;
  tracker_.on_entry(next);
  tracker_.deliver_open();
  EXPECT_EQ(only(Operation::kAllReduce).completion, Completion::kOpen);
}

TEST_F(EndAtTheLastByteTest, IsTheTransfersOfAnUnknownCommunicatorBesideAnotherJob) {
  tracker_.set_job(kPid, {.key = 1, .mpi_world = 0});
  tracker_.set_job(static_cast<int32_t>(kNeighbour), {.key = 2, .mpi_world = 0});
  call_of(kNeighbour, 600);
  EXPECT_EQ(completion_of_late_synchronisation(), Completion::kNetwork);
}

/// A rank over InfiniBand whose store or data loader uses TCP.
TEST_F(EndAtTheLastByteTest, IsNotTheCallsWhereFewerBytesThanItsOwnMoved) {
  make_comm_of(kPid, 500, 0);
  EXPECT_EQ(completion_of_late_synchronisation(1023), Completion::kSync);
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

/// The next call of a job whose synchronisation is never seen.
TEST_F(CollectiveTrackerTest, SilenceAfterEnoughBytesEndsACallThatNoThreadSynchronises) {
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

/// A job that polls its events and moves no bytes over sockets: the number of calls awaiting an end is bounded, and no
/// row is lost.
TEST_F(CollectiveTrackerTest, CallsWithoutAnEndAreForgottenTheOldestFirst) {
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

}  // namespace
}  // namespace stalltrace::capture
