// SPDX-License-Identifier: Apache-2.0
// The probes' row and the profiler file's row of a call become one row, whatever is missing on either side.
#include "blackbox/pairing/call_pairing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

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

class Pairing : public ::testing::Test {
 protected:
  /// A communicator: the probes saw its creation, or only its calls.
  void begin(bool made_while_tracing) { begin(made_while_tracing, pairing_); }
  void begin(bool made_while_tracing, CallPairing& pairing) {
    Communicator probe{.node_id = 5, .pid = kPid, .comm_ptr = kPointer, .created_ns = kBegin};
    if (made_while_tracing) {
      probe.comm_id_hash = kIdHash;
      probe.nccl_comm_hash = kNcclHash;
      probe.rank = 3;
      probe.nranks = 4;
      probe.rank_source = RankSource::kInit;
    }
    hash_ = probe.comm_id_hash;
    pairing.accept(probe);
    Communicator file_row{.node_id = 5, .pid = kPid, .comm_ptr = kSerial};
    file_row.comm_id_hash = file_row.nccl_comm_hash = kNcclHash;
    file_row.rank = 3;
    file_row.nranks = 4;
    file_row.rank_source = RankSource::kPlugin;
    file_row.created_ns = kBegin - kNsPerSecond;
    pairing.communicator(file_row);
  }
  /// Calls take 20 us to launch, 10 ms apart.
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
  static ProfilerCall profiled(int64_t number, std::optional<int64_t> duration_ns = 5 * kNsPerMs) {
    ProfilerCall call{.id = 50 + static_cast<uint64_t>(number)};
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
  /// Moves the row to the time of call `number` at `rate` calls per second.
  static Collective at_rate(Collective row, int64_t number, int64_t rate) {
    const int64_t before_ns = row.timestamp_ns - (kBegin + number * 10 * kNsPerMs);
    row.timestamp_ns = row.called_ns = kBegin + number * (kNsPerSecond / rate) + before_ns;
    return row;
  }
  std::vector<Collective> rows() {
    std::vector<Collective> rows;
    EXPECT_TRUE(rows_.collectives({}, [&](const Collective& row) { rows.push_back(row); }));
    return rows;
  }

  /// How many steps name this collective; 0: no collective.
  size_t steps_of(EventId collective) {
    size_t count = 0;
    EXPECT_TRUE(rows_.proxy_steps({}, [&](const ProxyStep& row) { count += row.collective_id == collective ? 1 : 0; }));
    return count;
  }

  MemorySource rows_;
  EventIds ids_{5};
  CallPairing pairing_{ids_, rows_};
  CommHash hash_ = 0;
};

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

TEST_F(Pairing, TransfersOfAnAllToAllAreNoCallsOfTheirOwn) {
  begin(true);
  Collective whole = probe(0);
  whole.op = Operation::kAllToAll;
  pairing_.accept(whole);
  for (int32_t peer = 0; peer < 3; ++peer) {
    ProfilerCall part = profiled(0, (peer + 1) * kNsPerMs);
    part.id += static_cast<uint64_t>(peer);
    part.row.op = Operation::kSend;
    part.row.peer = peer;
    pairing_.call(part);
  }
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].duration_ns, 3 * kNsPerMs + 8 * kNsPerUs);
}

TEST_F(Pairing, AnAllToAllLastsUntilItsLastTransferHasEnded) {
  begin(true);
  Collective whole = probe(0);
  whole.op = Operation::kAllToAll;
  pairing_.accept(whole);
  const auto part = [](int32_t peer, std::optional<int64_t> duration_ns) {
    ProfilerCall call = profiled(0, duration_ns);
    call.id += static_cast<uint64_t>(peer);
    call.row.op = Operation::kSend;
    call.row.peer = peer;
    return call;
  };
  pairing_.call(part(0, std::nullopt));
  pairing_.call(part(1, kNsPerMs));
  ProfilerCall own = part(3, std::nullopt);  // the rank's copy to itself
  own.row.completion = Completion::kUnobserved;
  pairing_.call(own);
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].completion, Completion::kOpen) << "one transfer hangs";
  EXPECT_FALSE(rows()[0].duration_ns);
  pairing_.call(part(0, 7 * kNsPerMs));
  pairing_.call(part(1, kNsPerMs));
  ASSERT_EQ(rows().size(), 1);
  EXPECT_EQ(rows()[0].completion, Completion::kProfiler);
  EXPECT_EQ(rows()[0].duration_ns, 7 * kNsPerMs + 8 * kNsPerUs);
}

TEST_F(Pairing, StepsOfAnAllToAllsTransfersAreItsOwn) {
  begin(true);
  Collective whole = probe(0);
  whole.op = Operation::kAllToAll;
  pairing_.accept(whole);
  ProfilerCall part = profiled(0);
  part.row.op = Operation::kSend;
  part.row.peer = 0;
  for (const bool is_paired : {false, true}) {  // a step may come before or after its transfer
    StepRow step{.collective = part.id};
    step.row.pid = kPid;
    step.row.timestamp_ns = kBegin;
    pairing_.step(step);
    if (!is_paired) {
      pairing_.call(part);
    }
  }
  EXPECT_EQ(steps_of(whole.event_id), 2);
}

TEST_F(Pairing, StepsOfCallsThatNeverComeDoNotKeepOthersFromWaiting) {
  begin(true);
  StepRow stray;
  stray.row.pid = kPid;
  stray.row.timestamp_ns = kBegin;
  for (uint64_t i = 0; i < 20'000; ++i) {
    stray.collective = 1'000'000 + i;
    pairing_.step(stray);
  }
  StepRow step = stray;
  step.collective = profiled(0).id;
  pairing_.step(step);
  pairing_.accept(probe(0));
  pairing_.call(profiled(0));
  EXPECT_EQ(steps_of(probe(0).event_id), 1);
  pairing_.finish();
  EXPECT_EQ(steps_of(0), 20'000) << "none is lost";
}

TEST_F(Pairing, ACallThatStaysOpenWhileThousandsEndKeepsItsLaunch) {
  begin(true);
  pairing_.accept(probe(0));
  pairing_.call(profiled(0, std::nullopt));
  for (int64_t number = 1; number < 3000; ++number) {
    pairing_.accept(probe(number));
    pairing_.call(profiled(number));
  }
  pairing_.call(profiled(0, 60 * kNsPerSecond));
  const std::vector<Collective> all = rows();
  ASSERT_EQ(all.size(), 3000);
  const auto first = std::ranges::find(all, probe(0).event_id, &Collective::event_id);
  ASSERT_NE(first, all.end());
  EXPECT_EQ(first->launch_ns, 20 * kNsPerUs);
  EXPECT_EQ(first->duration_ns, 60 * kNsPerSecond + 8 * kNsPerUs);
  EXPECT_EQ(first->comm_ptr, kPointer);
}

TEST_F(Pairing, StepsNameTheRowOfTheirCollective) {
  begin(true);
  pairing_.accept(probe(0));
  StepRow step{.collective = 50};
  step.row.node_id = 5;
  step.row.pid = kPid;
  step.row.timestamp_ns = kBegin;
  pairing_.step(step);  // an operation ends before its collective
  pairing_.call(profiled(0));
  pairing_.step(step);
  step.collective = 777;  // a collective that never comes
  pairing_.step(step);
  pairing_.finish();
  std::vector<EventId> named;
  ASSERT_TRUE(rows_.proxy_steps({}, [&](const ProxyStep& row) { named.push_back(row.collective_id); }));
  EXPECT_EQ(named, (std::vector<EventId>{probe(0).event_id, probe(0).event_id, 0}));
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

/// Calls at an even rate; in each round all of the probes' rows come before the file's.
struct Rounds {
  int64_t rate;
  int64_t of_a_round;
  int64_t rounds;
};

TEST_F(Pairing, EveryCallHasOneRowAtAnyRate) {
  for (const Rounds& given : {Rounds{2'000, 1'000, 8}, Rounds{3'000, 1'500, 8}, Rounds{5'000, 2'500, 8},
                              Rounds{10'000, 5'000, 8}, Rounds{10'000, 15'000, 2}}) {
    SCOPED_TRACE(given.rate);
    rows_ = {};
    CallPairing pairing(ids_, rows_);
    begin(true, pairing);
    const int64_t all = given.of_a_round * given.rounds;
    for (int64_t first = 0; first < all; first += given.of_a_round) {
      for (int64_t n = first; n < first + given.of_a_round; ++n) {
        pairing.accept(at_rate(probe(n), n, given.rate));
      }
      for (int64_t n = first; n < first + given.of_a_round; ++n) {
        ProfilerCall call = profiled(n);
        call.row = at_rate(call.row, n, given.rate);
        pairing.call(call);
      }
    }
    const std::vector<Collective> delivered = rows();
    EXPECT_EQ(delivered.size(), all);
    EXPECT_EQ(std::ranges::count(delivered, Completion::kProfiler, &Collective::completion), all);
    EXPECT_EQ(pairing.losses().of(kLostUnpaired), 0);
  }
}

/// The file is read 7 s late, after the probes' rows were given up.
TEST_F(Pairing, ACallWhoseRowWasGivenUpIsALossAndNoSecondRow) {
  begin(true);
  constexpr int64_t kRate = 10'000;
  constexpr int64_t kAll = 70'000;
  for (int64_t n = 0; n < kAll; ++n) {
    pairing_.accept(at_rate(probe(n), n, kRate));
  }
  for (int64_t n = 0; n < kAll; ++n) {
    ProfilerCall call = profiled(n);
    call.row = at_rate(call.row, n, kRate);
    pairing_.call(call);
  }
  const std::vector<Collective> delivered = rows();
  EXPECT_EQ(delivered.size(), kAll);
  const auto unpaired =
      static_cast<uint64_t>(std::ranges::count(delivered, Completion::kOpen, &Collective::completion));
  EXPECT_GT(unpaired, 0);
  EXPECT_EQ(pairing_.losses().of(kLostUnpaired), unpaired);
}

/// The file is read 11 s late: of the oldest calls not even the number is known any more.
TEST_F(Pairing, ASecondRowOfAForgottenCallIsCounted) {
  struct Newest final : EventSink {
    void accept(Event event) override {
      if (const auto* row = std::get_if<Collective>(&event)) {
        event_id = row->event_id;
      }
    }
    EventId event_id = 0;
  } newest;
  CallPairing pairing(ids_, newest);
  begin(true, pairing);
  constexpr int64_t kAll = kMostRows + kMostGivenUp + 1;
  const auto probed = [&](int64_t n) {
    Collective row = at_rate(probe(n), n, 10'000);
    row.event_id += 1'000'000;  // ids of second rows begin at 1
    return row;
  };
  pairing.set_behind(kPid, true);
  for (int64_t n = 0; n < kAll; ++n) {
    pairing.accept(probed(n));
  }
  EXPECT_EQ(pairing.losses().of(kLostForgotten), 1);
  for (int64_t n = 0; n < 2; ++n) {
    ProfilerCall call = profiled(n);
    call.row = at_rate(call.row, n, 10'000);
    newest.event_id = 0;
    pairing.call(call);
    EXPECT_EQ(newest.event_id, n == 0 ? make_event_id(5, 1) : 0) << "one that is remembered gets no second row";
  }
}

TEST_F(Pairing, StepsOfACallWhoseRowWasGivenUpNameThatRow) {
  begin(true);
  for (int64_t n = 0; n < 50'000; ++n) {
    pairing_.accept(at_rate(probe(n), n, 10'000));
  }
  ProfilerCall call = profiled(0);
  call.row = at_rate(call.row, 0, 10'000);
  pairing_.call(call);
  StepRow step{.collective = call.id};
  step.row.pid = kPid;
  step.row.timestamp_ns = kBegin;
  pairing_.step(step);
  EXPECT_EQ(steps_of(probe(0).event_id), 1);
}

TEST_F(Pairing, AnEndThatComesAfterItsRowWasForgottenIsALoss) {
  begin(true);
  constexpr int64_t kOpen = 33'000;  // more open calls than rows are kept
  for (int64_t n = 0; n < kOpen; ++n) {
    Collective row = at_rate(probe(n), n, 1'000'000);
    row.launch_ns = 0;
    pairing_.accept(row);
    ProfilerCall call = profiled(n, std::nullopt);
    call.row = at_rate(call.row, n, 1'000'000);
    pairing_.call(call);
  }
  ASSERT_EQ(rows().size(), kOpen);
  for (int repeated = 0; repeated < 2; ++repeated) {
    ProfilerCall call = profiled(0);
    call.row = at_rate(call.row, 0, 1'000'000);
    pairing_.call(call);
  }
  EXPECT_EQ(rows().size(), kOpen);
  EXPECT_EQ(pairing_.losses().of(kLostUnpaired), 1) << "counted once, however often the file repeats it";
}

TEST_F(Pairing, ACallThatStaysOpenWhileTensOfThousandsEndHasOneRow) {
  begin(true);
  pairing_.accept(probe(0));
  pairing_.call(profiled(0, std::nullopt));
  for (int64_t number = 1; number < 20'000; ++number) {
    pairing_.accept(probe(number));
    pairing_.call(profiled(number));
    if (number % 100 == 0) {
      pairing_.call(profiled(0, std::nullopt));  // a follower reports open calls repeatedly
    }
  }
  pairing_.call(profiled(0, 300 * kNsPerSecond));
  const std::vector<Collective> delivered = rows();
  EXPECT_EQ(delivered.size(), 20'000);
  const auto first = std::ranges::find(delivered, probe(0).event_id, &Collective::event_id);
  ASSERT_NE(first, delivered.end());
  EXPECT_EQ(first->duration_ns, 300 * kNsPerSecond + 8 * kNsPerUs);
}

TEST_F(Pairing, BoundsCountAsLosses) {
  begin(true);
  Collective whole = probe(0);
  whole.op = Operation::kAllToAll;
  pairing_.accept(whole);
  constexpr uint64_t kMostParts = 4096;
  for (uint64_t peer = 0; peer < kMostParts + 3; ++peer) {
    ProfilerCall part = profiled(0, std::nullopt);
    part.id += peer;
    part.row.op = Operation::kSend;
    part.row.peer = static_cast<int32_t>(peer);
    pairing_.call(part);
  }
  EXPECT_EQ(pairing_.losses().of(kLostParts), 3);
  Communicator another{.node_id = 5, .pid = kPid};
  for (uint64_t serial = 1; serial <= 1024 + 2; ++serial) {
    another.comm_ptr = serial;
    pairing_.communicator(another);
  }
  EXPECT_EQ(pairing_.losses().of(kLostCommunicators), 2);
  StepRow stray;
  stray.row.pid = kPid;
  for (uint64_t n = 0; n < 8192 + 4; ++n) {
    stray.collective = 1'000'000 + n;
    pairing_.step(stray);
  }
  EXPECT_EQ(pairing_.losses().of(kLostUnlinkedSteps), 4);
  for (int32_t pid = 100'000; pid < 100'000 + 4096; ++pid) {
    ProfilerCall call = profiled(0);
    call.row.pid = pid;
    pairing_.call(call);
  }
  EXPECT_EQ(pairing_.losses().of(kLostProcesses), 1) << "one process was there before";
}

TEST_F(Pairing, WhatIsNotOfNcclPasses) {
  Collective row = probe(0);
  row.library = Library::kMpi;
  pairing_.accept(row);
  pairing_.accept(Node{.node_id = 5, .name = "n"});
  EXPECT_EQ(rows().size(), 1);
  EXPECT_EQ(rows_.nodes()->size(), 1);
}

TEST_F(Pairing, ACallThatComesAgainHasOneRowHoweverManyCameSince) {
  begin(true);
  constexpr int64_t kCalls = 10'000;
  for (int round = 0; round < 3; ++round) {
    for (int64_t n = 0; n < kCalls; ++n) {
      pairing_.call(profiled(n));
    }
  }
  EXPECT_EQ(rows().size(), kCalls);
}

/// Counts rows of collectives, repeated deliveries included.
class Deliveries final : public EventSink {
 public:
  void accept(Event event) override {
    if (const auto* row = std::get_if<Collective>(&event)) {
      ++count;
      last = *row;
    }
  }
  int count = 0;
  Collective last;
};

TEST_F(Pairing, ARowIsDeliveredAgainOnlyWhenItChanged) {
  for (const bool probed : {true, false}) {
    Deliveries sink;
    CallPairing pairing(ids_, sink);
    begin(true, pairing);
    if (probed) {
      pairing.accept(probe(0));
    }
    pairing.call(profiled(0, std::nullopt));
    pairing.call(profiled(0));
    const int deliveries = sink.count;
    for (int n = 0; n < 3; ++n) {
      pairing.call(profiled(0));
    }
    EXPECT_EQ(sink.count, deliveries) << probed;
    pairing.call(profiled(0, 6 * kNsPerMs));  // a late part
    EXPECT_EQ(sink.count, deliveries + 1) << probed;
    EXPECT_EQ(sink.last.end_ns(), *profiled(0).row.end_ns() + kNsPerMs) << probed;
  }
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
