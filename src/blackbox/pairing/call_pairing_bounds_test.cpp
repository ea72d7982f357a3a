// SPDX-License-Identifier: Apache-2.0
// Many calls: each has one row, and what is given up counts as lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "blackbox/pairing/testing/pairing_fixture.h"

namespace stalltrace::blackbox {
namespace {

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

/// The probes' row of a call that a synchronisation ended, long after the call had ended in the file.
Collective ended_by_synchronisation(Collective row) {
  row.duration_ns = 60 * kNsPerSecond;
  row.completion = Completion::kSync;
  return row;
}

/// A step of 3 s, with one synchronisation for all of its calls.
TEST_F(Pairing, ASynchronisationSecondsLaterDoesNotChangeTheEnds) {
  begin(true);
  constexpr int64_t kRate = 500;
  constexpr int64_t kCalls = 1'500;
  for (int64_t n = 0; n < kCalls; ++n) {
    pairing_.accept(at_rate(probe(n), n, kRate));
    ProfilerCall call = profiled(n);
    call.row = at_rate(call.row, n, kRate);
    pairing_.call(call);
  }
  pairing_.accept(at_rate(probe(0), 0, kRate));  // still open: its end comes later
  for (int64_t n = 0; n < kCalls; ++n) {
    pairing_.accept(ended_by_synchronisation(at_rate(probe(n), n, kRate)));
  }
  const std::vector<Collective> delivered = rows();
  ASSERT_EQ(delivered.size(), kCalls);
  for (const Collective& row : delivered) {
    ASSERT_EQ(row.completion, Completion::kProfiler) << *row.seq;
    ASSERT_EQ(row.duration_ns, 5 * kNsPerMs + 8 * kNsPerUs) << *row.seq;
    ASSERT_EQ(row.comm_id_hash, kIdHash) << *row.seq;
  }
  EXPECT_EQ(pairing_.losses().of(kLostUnpaired), 0);
}

TEST_F(Pairing, AnEndThatASynchronisationReplacesIsALoss) {
  begin(true);
  constexpr int64_t kRate = 500;
  constexpr int64_t kForgotten = 5;
  constexpr int64_t kPairs = kFewestRows + kMostKeptEnds + kForgotten;
  pairing_.accept(at_rate(probe(0), 0, kRate));  // the file lost it
  for (int64_t n = 1; n <= kPairs; ++n) {
    pairing_.accept(at_rate(probe(n), n, kRate));
    ProfilerCall call = profiled(n);
    call.row = at_rate(call.row, n, kRate);
    pairing_.call(call);
  }
  EXPECT_EQ(pairing_.losses().of(kLostUnpaired), 0) << "a program may never synchronise";
  for (int64_t n = 0; n <= kPairs; ++n) {
    pairing_.accept(ended_by_synchronisation(at_rate(probe(n), n, kRate)));
  }
  const std::vector<Collective> delivered = rows();
  ASSERT_EQ(delivered.size(), kPairs + 1);
  for (const Collective& row : delivered) {
    ASSERT_EQ(row.completion, *row.seq <= kForgotten ? Completion::kSync : Completion::kProfiler) << *row.seq;
  }
  EXPECT_EQ(pairing_.losses().of(kLostUnpaired), kForgotten);
}

/// A call that hangs on another stream is older than all of these pairs.
TEST_F(Pairing, PairsBesideAnOpenCallAreKeptForLateParts) {
  begin(true);
  pairing_.accept(probe(0));
  pairing_.call(profiled(0, std::nullopt));
  constexpr int64_t kRate = 5'000;
  constexpr int64_t kFirst = 50'000;  // 10 s later
  const auto report = [&](int64_t n, int64_t duration_ns) {
    ProfilerCall call = profiled(n, duration_ns);
    call.row = at_rate(call.row, n, kRate);
    pairing_.call(call);
  };
  for (int64_t n = kFirst; n < kFirst + 3'000; ++n) {
    pairing_.accept(at_rate(probe(n), n, kRate));
    report(n, 5 * kNsPerMs);
  }
  report(kFirst, 6 * kNsPerMs);  // 0.6 s after the call
  const std::vector<Collective> delivered = rows();
  const auto first = std::ranges::find(delivered, probe(kFirst).event_id, &Collective::event_id);
  ASSERT_NE(first, delivered.end());
  EXPECT_EQ(first->duration_ns, 6 * kNsPerMs + 8 * kNsPerUs);
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

TEST_F(Pairing, CommunicatorsOfTheProbesBeyondTheBoundAreALoss) {
  const auto make_too_many = [&](int32_t pid) {
    Communicator row{.node_id = 5, .pid = pid};
    for (uint64_t pointer = 1; pointer <= kMostProbedCommunicators + 2; ++pointer) {
      row.comm_ptr = pointer;
      pairing_.accept(row);
    }
  };
  make_too_many(kPid + 1);
  EXPECT_EQ(rows_.communicators()->size(), kMostProbedCommunicators + 2);
  EXPECT_EQ(pairing_.losses().of(kLostCommunicators), 0) << "of a process without a profiler file none is looked up";
  pairing_.call(profiled(0));  // of kPid
  make_too_many(kPid);
  EXPECT_EQ(pairing_.losses().of(kLostCommunicators), 2);
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

}  // namespace
}  // namespace stalltrace::blackbox
