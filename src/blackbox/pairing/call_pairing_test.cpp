// SPDX-License-Identifier: Apache-2.0
// The probes' row and the profiler file's row of a call become one row, whatever is missing on either side.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "blackbox/pairing/testing/pairing_fixture.h"

namespace stalltrace::blackbox {
namespace {

TEST_F(Pairing, OneRowWithLaunchOfTheProbeAndEndOfTheFile) {
  begin(true);
  pairing_.accept(probe(0));
  pairing_.call(profiled(0));
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].launch_ns, 20 * kNsPerUs);
  EXPECT_EQ(rows()[0].duration_ns, 5 * kNsPerMs + 8 * kNsPerUs) << "from the call to the last part's end";
  EXPECT_EQ(rows()[0].completion, Completion::kProfiler);
  EXPECT_EQ(rows()[0].comm_id_hash, kIdHash);
}

/// The probes number two captured calls and three that run, 0 to 4. The file numbers what runs: two launches of the
/// graph, 0 to 3, and the three calls, 4 to 6.
TEST_F(Pairing, LaunchesOfAGraphDoNotShiftTheNumbersOfTheCallsBesideIt) {
  begin(true);
  for (const int64_t number : {0, 1}) {
    Collective captured = probe(number);
    captured.completion = Completion::kCaptured;
    pairing_.accept(captured);
  }
  for (const int64_t number : {2, 3, 4}) {
    pairing_.accept(probe(number));
  }
  for (const int64_t number : {0, 1, 2, 3}) {  // they begin while a call is launched
    ProfilerCall launched = profiled(number);
    launched.row.timestamp_ns = profiled(2).row.timestamp_ns;
    launched.by_graph = true;
    pairing_.call(launched);
  }
  for (const int64_t number : {2, 3, 4}) {
    ProfilerCall call = profiled(number);
    call.id += 100;
    call.row.seq = number + 2;
    pairing_.call(call);
  }
  std::vector<std::optional<int64_t>> called;
  std::vector<std::optional<int64_t>> by_graph;
  CommHash graph_hash = 0;
  for (const Collective& row : rows()) {
    if (row.comm_id_hash != kIdHash) {
      by_graph.push_back(row.seq);
      graph_hash = row.comm_id_hash;
      EXPECT_EQ(row.comm_ptr, kSerial | kGraphCommunicator);
      continue;
    }
    called.push_back(row.seq);
    EXPECT_EQ(row.completion, *row.seq < 2 ? Completion::kCaptured : Completion::kProfiler) << *row.seq;
  }
  EXPECT_EQ(called, (std::vector<std::optional<int64_t>>{0, 1, 2, 3, 4}));
  EXPECT_EQ(by_graph, (std::vector<std::optional<int64_t>>{0, 1, 2, 3}));
  EXPECT_NE(graph_hash, 0U);
  EXPECT_NE(graph_hash, kNcclHash);
  const std::vector<Communicator> communicators = *rows_.communicators();
  EXPECT_EQ(std::ranges::count(communicators, graph_hash, &Communicator::comm_id_hash), 1);
}

/// Before NCCL's profiler interface 5 a launch of a graph looks like any call. One whose number is that of a call of
/// the probes is not that call.
TEST_F(Pairing, ANumberJoinsNothingOnceACallWasCaptured) {
  begin(true);
  Collective captured = probe(0);
  captured.completion = Completion::kCaptured;
  pairing_.accept(captured);
  pairing_.accept(probe(1));
  ProfilerCall launched = profiled(1);
  launched.row.timestamp_ns += 5 * kNsPerMs;  // after the call
  pairing_.call(launched);
  ASSERT_EQ(rows().size(), 3);
  for (const Collective& row : rows()) {
    EXPECT_EQ(row.completion == Completion::kProfiler, row.comm_ptr == (kSerial | kUncertainCommunicator));
    EXPECT_EQ(row.comm_id_hash == 0, row.comm_ptr == (kSerial | kUncertainCommunicator));
    EXPECT_NE(row.completion, Completion::kOpen) << "nothing says that it has not ended";
  }
}

/// The agent of one node may have been started after the calls were captured, or know no communicator at all.
TEST_F(Pairing, WhatAGraphLaunchesIsNamedAlikeWhateverTheProbesSaw) {
  std::set<CommHash> names;
  for (const bool made_while_tracing : {false, true}) {
    MemorySource rows;
    CallPairing pairing(ids_, rows);
    begin(made_while_tracing, pairing);
    ProfilerCall launched = profiled(1);
    launched.by_graph = true;
    pairing.call(launched);
    EXPECT_TRUE(rows.collectives({}, [&](const Collective& row) { names.insert(row.comm_id_hash); }));
    const std::vector<Communicator> communicators = *rows.communicators();
    for (const Communicator& row : communicators) {
      if (is_graph_communicator(row.comm_ptr)) {
        EXPECT_EQ(row.parent_hash, made_while_tracing ? kIdHash : kNcclHash);
      }
    }
  }
  EXPECT_EQ(names.size(), 1U);
  EXPECT_FALSE(names.contains(kNcclHash) || names.contains(kIdHash) || names.contains(0));
}

TEST_F(Pairing, ACallThatWasOpenUntilItWasCapturedJoinsNothing) {
  begin(true);
  pairing_.accept(probe(0, false));
  Collective captured = probe(0);
  captured.completion = Completion::kCaptured;
  pairing_.accept(captured);
  pairing_.call(profiled(0));
  ASSERT_EQ(rows().size(), 2);
  EXPECT_EQ(rows()[0].completion, Completion::kCaptured);
}

TEST_F(Pairing, AKernelThatHasBegunIsReportedBeforeItEnds) {
  begin(true);
  pairing_.accept(probe(0));
  ProfilerCall call = profiled(0, std::nullopt);
  pairing_.call(call);
  ProfilerCall alone = profiled(1, std::nullopt);  // the probes have not seen it
  pairing_.call(alone);
  const int64_t start_ns = call.row.timestamp_ns + kNsPerMs;
  call.row.kernel_start_ns = alone.row.kernel_start_ns = start_ns;
  pairing_.call(call);
  pairing_.call(alone);
  ASSERT_EQ(rows().size(), 2);
  for (const Collective& row : rows()) {
    EXPECT_EQ(row.kernel_start_ns, start_ns);
    EXPECT_EQ(row.kernel_end_ns, std::nullopt);
    EXPECT_EQ(row.completion, Completion::kOpen);
  }
  call = profiled(0);
  call.row.kernel_start_ns = start_ns;
  call.row.kernel_end_ns = start_ns + kNsPerMs;
  pairing_.call(call);
  EXPECT_EQ(rows()[0].kernel_end_ns, start_ns + kNsPerMs);
  EXPECT_EQ(rows()[0].completion, Completion::kProfiler);
}

TEST_F(Pairing, ASynchronisationThatReturnsLaterDoesNotChangeTheEnd) {
  begin(true);
  pairing_.accept(probe(0));
  pairing_.call(profiled(0));
  Collective synchronised = probe(0);
  synchronised.duration_ns = 9 * kNsPerMs;
  synchronised.completion = Completion::kSync;
  pairing_.accept(synchronised);
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].completion, Completion::kProfiler);
  EXPECT_EQ(rows()[0].duration_ns, 5 * kNsPerMs + 8 * kNsPerUs);
}

TEST_F(Pairing, OpenInTheFileThenEnded) {
  begin(true);
  pairing_.accept(probe(0, false));
  pairing_.call(profiled(0, std::nullopt));
  EXPECT_EQ(rows()[0].completion, Completion::kOpen);
  pairing_.call(profiled(0));
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].completion, Completion::kProfiler);
}

TEST_F(Pairing, WhatOneSideMissedDoesNotShiftTheOther) {
  begin(true);
  for (const int64_t number : {0, 1, 3, 4}) {  // the probes lost number 2
    pairing_.accept(probe(number));
  }
  for (const int64_t number : {0, 2, 3, 4}) {  // the file lost number 1
    pairing_.call(profiled(number));
  }
  std::map<int64_t, Completion> by_number;
  for (const Collective& row : rows()) {
    EXPECT_TRUE(by_number.emplace(*row.seq, row.completion).second) << "once each";
    EXPECT_EQ(row.comm_id_hash, kIdHash);
    EXPECT_EQ(row.comm_ptr, kPointer);
  }
  ASSERT_EQ(by_number.size(), 5);
  EXPECT_EQ(by_number[1], Completion::kOpen);
  EXPECT_EQ(by_number[2], Completion::kProfiler);
}

TEST_F(Pairing, ACommunicatorMadeBeforeTracingIsNamedByTheFile) {
  begin(false);
  for (int64_t number = 0; number < 3; ++number) {
    Collective row = probe(number + 40);
    row.seq = number;  // the probes count from the time they were attached
    pairing_.accept(row);
  }
  pairing_.call(profiled(39));  // from before the probes were attached
  for (int64_t number = 40; number < 43; ++number) {
    pairing_.call(profiled(number));
  }
  ASSERT_EQ(rows().size(), 4);
  std::set<int64_t> numbers;
  for (const Collective& row : rows()) {
    numbers.insert(*row.seq);
    EXPECT_EQ(row.comm_id_hash, kNcclHash);
    EXPECT_EQ(row.rank, 3);
    EXPECT_EQ(row.rank_source, RankSource::kPlugin);
  }
  EXPECT_EQ(numbers, (std::set<int64_t>{39, 40, 41, 42}));
  bool named = false;
  const std::vector<Communicator> delivered = *rows_.communicators();
  for (const Communicator& row : delivered) {
    named = named || (row.comm_ptr == kPointer && row.rank == 3 && row.nccl_comm_hash == kNcclHash &&
                      row.comm_id_hash == kNcclHash && row.rank_source == RankSource::kPlugin);
  }
  EXPECT_TRUE(named);
}

TEST_F(Pairing, ASplitCommunicatorHasItsSizeFromTheFile) {
  begin(true);
  Communicator split{.node_id = 5, .pid = kPid, .comm_ptr = kPointer, .created_ns = kBegin};
  split.comm_id_hash = kIdHash;
  split.rank = 3;
  split.rank_source = RankSource::kInit;
  pairing_.accept(split);
  pairing_.accept(probe(0));
  pairing_.call(profiled(0));
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].nranks, 4);
  const std::vector<Communicator> delivered = *rows_.communicators();
  EXPECT_EQ(delivered.back().nranks, 4);
  EXPECT_EQ(delivered.back().rank_source, RankSource::kInit) << "the probes knew the rank";
}

TEST_F(Pairing, MembersOfAGroupAreDistinguishedByTheirArguments) {
  begin(true);
  for (int64_t number = 0; number < 3; ++number) {
    Collective member = probe(0);
    member.event_id += number;
    member.seq = number;
    member.called_ns -= (3 - number) * kNsPerUs;
    member.count = 100 + number;
    member.group_id = 9;
    pairing_.accept(member);
  }
  for (int64_t number = 2; number >= 0; --number) {  // launched in NCCL's own order
    ProfilerCall member = profiled(0, number * kNsPerMs + kNsPerMs);
    member.id += static_cast<uint64_t>(number);
    member.row.count = 100 + number;
    member.row.seq = 2 - number;
    pairing_.call(member);
  }
  ASSERT_EQ(rows().size(), 3);
  for (const Collective& row : rows()) {
    EXPECT_EQ(*row.duration_ns / kNsPerMs, *row.count - 99);
    EXPECT_EQ(*row.seq, *row.count - 100) << "the order of the calls";
  }
}

TEST_F(Pairing, AnotherThreadsCallAtTheSameTimeIsAnother) {
  begin(true);
  pairing_.accept(probe(0));
  Collective other = probe(0);
  other.event_id += 500;
  other.comm_ptr = 0xd0;
  other.comm_id_hash = 0x2d;
  other.tid = kTid + 1;
  pairing_.accept(
      Communicator{.node_id = 5, .pid = kPid, .comm_ptr = 0xd0, .comm_id_hash = 0x2d, .nccl_comm_hash = 0xdef});
  pairing_.accept(other);
  pairing_.call(profiled(0));
  for (const Collective& row : rows()) {
    EXPECT_EQ(row.completion == Completion::kProfiler, row.comm_ptr == kPointer);
  }
}

TEST_F(Pairing, ACommunicatorWithoutAnIdIsFoundByNcclsHashOnceCallsHaveMet) {
  pairing_.accept(Communicator{.node_id = 5, .pid = kPid, .comm_ptr = kPointer, .comm_id_hash = kIdHash});  // a split
  Communicator file_row{.node_id = 5, .pid = kPid, .comm_ptr = kSerial};
  file_row.nccl_comm_hash = file_row.comm_id_hash = kNcclHash;
  pairing_.communicator(file_row);
  EXPECT_EQ(pairing_.find(kPid, kNcclHash), nullptr);
  hash_ = kIdHash;
  pairing_.accept(probe(0));
  pairing_.call(Pairing::profiled(0));
  const Communicator* known = pairing_.find(kPid, kNcclHash);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->comm_id_hash, kIdHash);
  EXPECT_EQ(pairing_.find(kPid, 0), nullptr);
  EXPECT_EQ(pairing_.find(kPid + 1, kNcclHash), nullptr);
}

TEST_F(Pairing, ACallThatOnlyTheFileHasDoesNotStayOpenWhenNothingWillShowItsEnd) {
  begin(true);
  ProfilerCall call = profiled(0, std::nullopt);
  pairing_.call(call);
  EXPECT_EQ(rows()[0].completion, Completion::kOpen);
  call.row.completion = Completion::kUnobserved;
  pairing_.call(call);
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].completion, Completion::kUnobserved);
}

TEST_F(Pairing, RowsWaitForAFileThatIsNotReadToItsEnd) {
  for (const bool behind : {false, true}) {
    MemorySource rows;
    CallPairing pairing(ids_, rows);
    begin(true, pairing);
    pairing.set_behind(kPid, behind);
    constexpr int64_t kCalls = 3000;  // 30 s
    for (int64_t n = 0; n < kCalls; ++n) {
      pairing.accept(probe(n));
    }
    for (int64_t n = 0; n < kCalls; ++n) {
      pairing.call(profiled(n));
    }
    EXPECT_EQ(pairing.losses().of(kLostUnpaired), behind ? 0 : kCalls - 1024);
  }
}

TEST_F(Pairing, TheLastCallsOfACommunicatorDoNotNameTheNextOneAtItsAddress) {
  begin(false);
  for (int64_t n = 0; n < 4; ++n) {
    pairing_.accept(probe(n));
  }
  pairing_.call(profiled(0));
  pairing_.call(profiled(1));
  pairing_.accept(Communicator{.node_id = 5,
                               .pid = kPid,
                               .comm_ptr = kPointer,
                               .created_ns = probe(9).timestamp_ns});  // before the file is read
  Communicator next{.node_id = 5, .pid = kPid, .comm_ptr = kSerial + 1};
  next.comm_id_hash = next.nccl_comm_hash = kNcclHash + 1;
  next.rank = 1;
  next.nranks = 2;
  next.rank_source = RankSource::kPlugin;
  pairing_.communicator(next);
  for (int64_t n = 0; n < 4; ++n) {
    Collective row = probe(10 + n);
    row.seq = n;
    pairing_.accept(row);
  }
  pairing_.call(profiled(2));
  pairing_.call(profiled(3));
  for (int64_t n = 0; n < 4; ++n) {
    ProfilerCall call = profiled(10 + n);
    call.row.seq = n;
    call.row.comm_ptr = kSerial + 1;
    call.row.comm_id_hash = kNcclHash + 1;
    call.row.rank = 1;
    call.row.nranks = 2;
    pairing_.call(call);
  }
  ASSERT_EQ(rows().size(), 8) << "one each";
  for (const Collective& row : rows()) {
    const bool first = row.timestamp_ns < probe(9).timestamp_ns;
    EXPECT_EQ(row.completion, Completion::kProfiler);
    EXPECT_EQ(row.comm_id_hash, first ? kNcclHash : kNcclHash + 1);
    EXPECT_EQ(row.rank, first ? 3 : 1);
  }
}

}  // namespace
}  // namespace stalltrace::blackbox
