// SPDX-License-Identifier: Apache-2.0
// Transfers and steps are attributed to the row of their collective.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "blackbox/pairing/testing/pairing_fixture.h"

namespace stalltrace::blackbox {
namespace {

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

}  // namespace
}  // namespace stalltrace::blackbox
