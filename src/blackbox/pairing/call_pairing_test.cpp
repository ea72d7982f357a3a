// SPDX-License-Identifier: Apache-2.0
// A probe's row and a box's row of one call are one row, whatever is missing on either side.
#include "blackbox/pairing/call_pairing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::blackbox {
namespace {

constexpr int64_t kBegin = 1'800'000'000LL * kNsPerSecond;
constexpr int32_t kPid = 70;
constexpr int32_t kTid = 71;
constexpr uint64_t kPointer = 0xc0;
constexpr uint64_t kSerial = 1;
constexpr CommHash kIdHash = 0x1d;
constexpr CommHash kNcclHash = 0xabc;

class Merge : public ::testing::Test {
 protected:
  /// A communicator of which the probes saw the making, or only calls.
  void begin(bool made_while_tracing) {
    Communicator probe{.node_id = 5, .pid = kPid, .comm_ptr = kPointer, .created_ns = kBegin};
    if (made_while_tracing) {
      probe.comm_id_hash = kIdHash;
      probe.nccl_comm_hash = kNcclHash;
      probe.rank = 3;
      probe.nranks = 4;
      probe.rank_source = RankSource::kInit;
    }
    hash_ = probe.comm_id_hash;
    merge_.accept(probe);
    Communicator box{.node_id = 5, .pid = kPid, .comm_ptr = kSerial};
    box.comm_id_hash = box.nccl_comm_hash = kNcclHash;
    box.rank = 3;
    box.nranks = 4;
    box.rank_source = RankSource::kPlugin;
    box.created_ns = kBegin - kNsPerSecond;
    merge_.communicator(box);
  }
  /// Calls are launched in 20 us, 10 ms apart.
  Collective probe(int64_t number, bool returned = true) {
    Collective row;
    row.event_id = make_event_id(5, 1000 + static_cast<uint64_t>(number));
    row.node_id = 5;
    row.timestamp_ns = row.called_ns = kBegin + number * 10 * kNsPerMs;
    if (returned) {
      row.launch_ns = 20 * kNsPerUs;
    }
    row.seq = number;
    row.comm_ptr = kPointer;
    row.comm_id_hash = hash_;
    row.pid = kPid;
    row.tid = kTid;
    row.count = 100;
    row.datatype = 7;
    return row;
  }
  static blackbox::BoxCall box(int64_t number, std::optional<int64_t> duration_ns = 5 * kNsPerMs) {
    blackbox::BoxCall call{.id = 50 + static_cast<uint64_t>(number)};
    Collective& row = call.row;
    row.node_id = 5;
    row.timestamp_ns = row.called_ns = kBegin + number * 10 * kNsPerMs + 8 * kNsPerUs;
    row.launch_ns = 4 * kNsPerUs;
    row.duration_ns = duration_ns;
    row.completion = duration_ns ? Completion::kProfiler : Completion::kOpen;
    row.seq = number;
    row.comm_ptr = kSerial;
    row.comm_id_hash = kNcclHash;
    row.rank = 3;
    row.nranks = 4;
    row.rank_source = RankSource::kPlugin;
    row.pid = kPid;
    row.tid = kTid;
    row.count = 100;
    row.datatype = 7;
    return call;
  }
  std::vector<Collective> rows() {
    std::vector<Collective> rows;
    EXPECT_TRUE(rows_.collectives({}, [&](const Collective& row) { rows.push_back(row); }));
    return rows;
  }

  /// How many steps name this collective; 0 none.
  size_t steps_of(EventId collective) {
    size_t count = 0;
    EXPECT_TRUE(rows_.proxy_steps({}, [&](const ProxyStep& row) { count += row.collective_id == collective ? 1 : 0; }));
    return count;
  }

  MemorySource rows_;
  EventIds ids_{5};
  CallPairing merge_{ids_, rows_};
  CommHash hash_ = 0;
};

TEST_F(Merge, OneRowWithLaunchOfTheProbeAndEndOfTheBox) {
  begin(true);
  merge_.accept(probe(0));
  merge_.call(box(0));
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].launch_ns, 20 * kNsPerUs);
  EXPECT_EQ(rows()[0].duration_ns, 5 * kNsPerMs + 8 * kNsPerUs) << "from the call to the last part's end";
  EXPECT_EQ(rows()[0].completion, Completion::kProfiler);
  EXPECT_EQ(rows()[0].comm_id_hash, kIdHash);
}

TEST_F(Merge, ASynchronisationThatReturnsLaterDoesNotChangeTheEnd) {
  begin(true);
  merge_.accept(probe(0));
  merge_.call(box(0));
  Collective synchronised = probe(0);
  synchronised.duration_ns = 9 * kNsPerMs;
  synchronised.completion = Completion::kSync;
  merge_.accept(synchronised);
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].completion, Completion::kProfiler);
  EXPECT_EQ(rows()[0].duration_ns, 5 * kNsPerMs + 8 * kNsPerUs);
}

TEST_F(Merge, OpenInTheBoxThenEnded) {
  begin(true);
  merge_.accept(probe(0, false));
  merge_.call(box(0, std::nullopt));
  EXPECT_EQ(rows()[0].completion, Completion::kOpen);
  merge_.call(box(0));
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].completion, Completion::kProfiler);
}

TEST_F(Merge, WhatOneSideMissedDoesNotShiftTheOther) {
  begin(true);
  for (const int64_t number : {0, 1, 3, 4}) {  // the probes lost number 2
    merge_.accept(probe(number));
  }
  for (const int64_t number : {0, 2, 3, 4}) {  // the box lost number 1
    merge_.call(box(number));
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

TEST_F(Merge, ACommunicatorMadeBeforeTracingIsNamedByTheBox) {
  begin(false);
  for (int64_t number = 0; number < 3; ++number) {
    Collective row = probe(number + 40);
    row.seq = number;  // the probes count from when they came
    merge_.accept(row);
  }
  merge_.call(box(39));  // from before the probes
  for (int64_t number = 40; number < 43; ++number) {
    merge_.call(box(number));
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
  const std::vector<Communicator> told = *rows_.communicators();
  for (const Communicator& row : told) {
    named = named || (row.comm_ptr == kPointer && row.rank == 3 && row.nccl_comm_hash == kNcclHash &&
                      row.comm_id_hash == kNcclHash && row.rank_source == RankSource::kPlugin);
  }
  EXPECT_TRUE(named);
}

TEST_F(Merge, ASplitCommunicatorHasItsSizeFromTheBox) {
  begin(true);
  Communicator split{.node_id = 5, .pid = kPid, .comm_ptr = kPointer, .created_ns = kBegin};
  split.comm_id_hash = kIdHash;
  split.rank = 3;
  split.rank_source = RankSource::kInit;
  merge_.accept(split);
  merge_.accept(probe(0));
  merge_.call(box(0));
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].nranks, 4);
  const std::vector<Communicator> told = *rows_.communicators();
  EXPECT_EQ(told.back().nranks, 4);
  EXPECT_EQ(told.back().rank_source, RankSource::kInit) << "the probes knew the rank";
}

TEST_F(Merge, MembersOfAGroupAreToldApartByWhatTheyAre) {
  begin(true);
  for (int64_t number = 0; number < 3; ++number) {
    Collective member = probe(0);
    member.event_id += number;
    member.seq = number;
    member.called_ns -= (3 - number) * kNsPerUs;
    member.count = 100 + number;
    member.group_id = 9;
    merge_.accept(member);
  }
  for (int64_t number = 2; number >= 0; --number) {  // launched in an order of NCCL's own
    blackbox::BoxCall member = box(0, number * kNsPerMs + kNsPerMs);
    member.id += static_cast<uint64_t>(number);
    member.row.count = 100 + number;
    member.row.seq = 2 - number;
    merge_.call(member);
  }
  ASSERT_EQ(rows().size(), 3);
  for (const Collective& row : rows()) {
    EXPECT_EQ(*row.duration_ns / kNsPerMs, *row.count - 99);
    EXPECT_EQ(*row.seq, *row.count - 100) << "the order of the calls";
  }
}

TEST_F(Merge, AnotherThreadsCallAtTheSameTimeIsAnother) {
  begin(true);
  merge_.accept(probe(0));
  Collective other = probe(0);
  other.event_id += 500;
  other.comm_ptr = 0xd0;
  other.comm_id_hash = 0x2d;
  other.tid = kTid + 1;
  merge_.accept(
      Communicator{.node_id = 5, .pid = kPid, .comm_ptr = 0xd0, .comm_id_hash = 0x2d, .nccl_comm_hash = 0xdef});
  merge_.accept(other);
  merge_.call(box(0));
  for (const Collective& row : rows()) {
    EXPECT_EQ(row.completion == Completion::kProfiler, row.comm_ptr == kPointer);
  }
}

TEST_F(Merge, TransfersOfAnAllToAllAreNoCallsOfTheirOwn) {
  begin(true);
  Collective whole = probe(0);
  whole.op = Operation::kAllToAll;
  merge_.accept(whole);
  for (int32_t peer = 0; peer < 3; ++peer) {
    blackbox::BoxCall part = box(0, (peer + 1) * kNsPerMs);
    part.id += static_cast<uint64_t>(peer);
    part.row.op = Operation::kSend;
    part.row.peer = peer;
    merge_.call(part);
  }
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].duration_ns, 3 * kNsPerMs + 8 * kNsPerUs);
}

TEST_F(Merge, AnAllToAllLastsUntilItsLastTransferHasEnded) {
  begin(true);
  Collective whole = probe(0);
  whole.op = Operation::kAllToAll;
  merge_.accept(whole);
  const auto part = [](int32_t peer, std::optional<int64_t> duration_ns) {
    blackbox::BoxCall call = box(0, duration_ns);
    call.id += static_cast<uint64_t>(peer);
    call.row.op = Operation::kSend;
    call.row.peer = peer;
    return call;
  };
  merge_.call(part(0, std::nullopt));
  merge_.call(part(1, kNsPerMs));
  blackbox::BoxCall own = part(3, std::nullopt);  // the rank's own copy
  own.row.completion = Completion::kUnobserved;
  merge_.call(own);
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].completion, Completion::kOpen) << "one transfer hangs";
  EXPECT_FALSE(rows()[0].duration_ns);
  merge_.call(part(0, 7 * kNsPerMs));
  merge_.call(part(1, kNsPerMs));
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].completion, Completion::kProfiler);
  EXPECT_EQ(rows()[0].duration_ns, 7 * kNsPerMs + 8 * kNsPerUs);
}

TEST_F(Merge, StepsOfAnAllToAllsTransfersAreItsOwn) {
  begin(true);
  Collective whole = probe(0);
  whole.op = Operation::kAllToAll;
  merge_.accept(whole);
  blackbox::BoxCall part = box(0);
  part.row.op = Operation::kSend;
  part.row.peer = 0;
  for (const bool told : {false, true}) {  // a step comes before its transfer, and after
    blackbox::StepRow step{.collective = part.id};
    step.row.pid = kPid;
    step.row.timestamp_ns = kBegin;
    merge_.step(step);
    if (!told) {
      merge_.call(part);
    }
  }
  EXPECT_EQ(steps_of(whole.event_id), 2);
}

TEST_F(Merge, StepsOfCallsThatNeverComeDoNotKeepOthersFromWaiting) {
  begin(true);
  blackbox::StepRow stray;
  stray.row.pid = kPid;
  stray.row.timestamp_ns = kBegin;
  for (uint64_t i = 0; i < 20'000; ++i) {
    stray.collective = 1'000'000 + i;
    merge_.step(stray);
  }
  blackbox::StepRow step = stray;
  step.collective = box(0).id;
  merge_.step(step);
  merge_.accept(probe(0));
  merge_.call(box(0));
  EXPECT_EQ(steps_of(probe(0).event_id), 1);
  merge_.finish();
  EXPECT_EQ(steps_of(0), 20'000) << "none is lost";
}

TEST_F(Merge, ACallThatStaysOpenWhileThousandsEndKeepsItsLaunch) {
  begin(true);
  merge_.accept(probe(0));
  merge_.call(box(0, std::nullopt));
  for (int64_t number = 1; number < 3000; ++number) {
    merge_.accept(probe(number));
    merge_.call(box(number));
  }
  merge_.call(box(0, 60 * kNsPerSecond));
  const std::vector<Collective> all = rows();
  ASSERT_EQ(all.size(), 3000);
  const auto first = std::ranges::find(all, probe(0).event_id, &Collective::event_id);
  ASSERT_NE(first, all.end());
  EXPECT_EQ(first->launch_ns, 20 * kNsPerUs);
  EXPECT_EQ(first->duration_ns, 60 * kNsPerSecond + 8 * kNsPerUs);
  EXPECT_EQ(first->comm_ptr, kPointer);
}

TEST_F(Merge, StepsNameTheRowOfTheirCollective) {
  begin(true);
  merge_.accept(probe(0));
  blackbox::StepRow step{.collective = 50};
  step.row.node_id = 5;
  step.row.pid = kPid;
  step.row.timestamp_ns = kBegin;
  merge_.step(step);  // an operation ends before its collective
  merge_.call(box(0));
  merge_.step(step);
  step.collective = 777;  // whose collective never comes
  merge_.step(step);
  merge_.finish();
  std::vector<EventId> named;
  ASSERT_TRUE(rows_.proxy_steps({}, [&](const ProxyStep& row) { named.push_back(row.collective_id); }));
  EXPECT_EQ(named, (std::vector<EventId>{probe(0).event_id, probe(0).event_id, 0}));
}

TEST_F(Merge, ACommunicatorWithoutAnIdIsFoundByNcclsHashOnceCallsHaveMet) {
  merge_.accept(Communicator{.node_id = 5, .pid = kPid, .comm_ptr = kPointer, .comm_id_hash = kIdHash});  // a split
  Communicator box{.node_id = 5, .pid = kPid, .comm_ptr = kSerial};
  box.nccl_comm_hash = box.comm_id_hash = kNcclHash;
  merge_.communicator(box);
  EXPECT_EQ(merge_.find(kPid, kNcclHash), nullptr);
  hash_ = kIdHash;
  merge_.accept(probe(0));
  merge_.call(Merge::box(0));
  const Communicator* known = merge_.find(kPid, kNcclHash);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->comm_id_hash, kIdHash);
  EXPECT_EQ(merge_.find(kPid, 0), nullptr);
  EXPECT_EQ(merge_.find(kPid + 1, kNcclHash), nullptr);
}

TEST_F(Merge, WhatIsNotOfNcclPasses) {
  Collective row = probe(0);
  row.library = Library::kMpi;
  merge_.accept(row);
  merge_.accept(Node{.node_id = 5, .name = "n"});
  EXPECT_EQ(rows().size(), 1);
  EXPECT_EQ(rows_.nodes()->size(), 1);
}

}  // namespace
}  // namespace stalltrace::blackbox
