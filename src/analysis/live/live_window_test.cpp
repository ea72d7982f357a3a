// SPDX-License-Identifier: Apache-2.0
#include "analysis/live/live_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stalltrace::analysis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kSecond = kNsPerSecond;
constexpr WindowLimits kSmall{.length_ns = 10 * kSecond, .rows = 4, .states = 3};

Collective call(EventId id, int64_t begin_ns, std::optional<int64_t> duration_ns = 1'000'000, int32_t pid = 11) {
  Collective row;
  row.event_id = id;
  row.node_id = 1;
  row.pid = pid;
  row.op = Operation::kAllReduce;
  row.timestamp_ns = begin_ns;
  row.duration_ns = duration_ns;
  row.completion = duration_ns ? Completion::kCall : Completion::kOpen;
  return row;
}

Process process(int32_t pid, std::optional<int32_t> rank = {}, std::optional<int64_t> exit_ns = {}) {
  Process row;
  row.node_id = 1;
  row.pid = pid;
  row.start_ns = pid;
  row.rank = rank;
  row.world_size = rank ? std::optional(2) : std::nullopt;
  row.exit_ns = exit_ns;
  return row;
}

std::vector<EventId> calls_in(LiveWindow& window) {
  std::vector<EventId> ids;
  EXPECT_TRUE(window.collectives({}, [&](const Collective& row) { ids.push_back(row.event_id); }));
  return ids;
}

std::vector<int32_t> processes_in(LiveWindow& window) {
  std::vector<int32_t> pids;
  const std::vector<Process> rows = window.processes().value();
  for (const Process& row : rows) {
    pids.push_back(row.pid);
  }
  return pids;
}

TEST(LiveWindow, ForgetsWhatEndedBeforeIt) {
  LiveWindow window(kSmall);
  window.accept(call(1, 1 * kSecond));
  window.accept(call(2, 15 * kSecond));
  window.advance(20 * kSecond);
  EXPECT_THAT(calls_in(window), ElementsAre(2));
  EXPECT_EQ(window.from_ns(), 10 * kSecond);
}

TEST(LiveWindow, ACallIsKeptUntilItsEndIsBeforeIt) {
  LiveWindow window(kSmall);
  window.accept(call(1, 1 * kSecond, 14 * kSecond));
  window.advance(20 * kSecond);
  EXPECT_THAT(calls_in(window), ElementsAre(1));
  window.advance(30 * kSecond);
  EXPECT_THAT(calls_in(window), IsEmpty());
}

TEST(LiveWindow, KeepsWhatBeganInAPinnedRange) {
  LiveWindow window(kSmall);
  window.accept(call(1, 1 * kSecond));
  window.accept(call(2, 3 * kSecond));
  window.pin({{2 * kSecond, 4 * kSecond}});
  window.advance(60 * kSecond);
  EXPECT_THAT(calls_in(window), ElementsAre(2));
  window.pin({});
  window.advance(62 * kSecond);
  EXPECT_THAT(calls_in(window), IsEmpty());
}

TEST(LiveWindow, ARowOfAnIdReplacesTheOneBeforeAlsoOutOfOrder) {
  LiveWindow window(kSmall);
  window.accept(call(3, 3 * kSecond));
  window.accept(call(1, 1 * kSecond));
  window.accept(call(2, 2 * kSecond, std::nullopt));
  window.accept(call(2, 2 * kSecond, 7));
  std::vector<std::pair<EventId, std::optional<int64_t>>> rows;
  ASSERT_TRUE(window.collectives({}, [&](const Collective& row) { rows.emplace_back(row.event_id, row.duration_ns); }));
  EXPECT_THAT(rows, ElementsAre(std::pair(1, 1'000'000), std::pair(2, 7), std::pair(3, 1'000'000)));
}

TEST(LiveWindow, BeyondItsLimitTheOldestRowGoes) {
  LiveWindow window(kSmall);
  for (EventId id = 1; id <= 6; ++id) {
    window.accept(call(id, id * kSecond));
  }
  EXPECT_THAT(calls_in(window), ElementsAre(3, 4, 5, 6));
}

TEST(LiveWindow, AFloodIsBounded) {
  LiveWindow window({.length_ns = 30 * kNsPerSecond, .rows = 1'000, .states = 16});
  for (uint64_t i = 1; i <= 20'000; ++i) {
    window.accept(Collective{.event_id = make_event_id(1, i), .node_id = 1, .timestamp_ns = kSecond});
    window.accept(TcpEvent{.event_id = make_event_id(1, i), .node_id = 1, .timestamp_ns = kSecond});
    window.accept(Connection{.node_id = 1, .cookie = i, .opened_ns = kSecond});
    window.accept(NetSpan{.node_id = 1, .timestamp_ns = kSecond});
  }
  window.advance(kSecond + 3 * kNsPerSecond);
  EXPECT_EQ(window.rows(), 3'016U);
}

TEST(LiveWindow, OfStatesTheOldestGo) {
  LiveWindow window(kSmall);
  for (int32_t pid = 1; pid <= 5; ++pid) {
    window.accept(process(pid));
  }
  window.advance(20 * kSecond);
  EXPECT_THAT(processes_in(window), ElementsAre(3, 4, 5));
}

TEST(LiveWindow, AnEndedProcessGoesWhenThePinnedTimeHasGoneToo) {
  LiveWindow window(kSmall);
  window.accept(process(7, 0, 5 * kSecond));
  window.accept(call(1, 4 * kSecond, 1'000'000, 7));
  window.pin({{4 * kSecond, 5 * kSecond}});
  window.advance(60 * kSecond);
  EXPECT_THAT(processes_in(window), ElementsAre(7));
  EXPECT_EQ(window.called().size(), 1U);
  window.pin({});
  window.advance(62 * kSecond);
  EXPECT_THAT(processes_in(window), IsEmpty());
  EXPECT_TRUE(window.called().empty());
}

TEST(LiveWindow, ASetUpThatLastsLongerThanItIsKept) {
  LiveWindow window(kSmall);
  window.accept(process(7, 0));
  Collective set_up = call(1, 1 * kSecond, std::nullopt, 7);
  set_up.op = Operation::kCommInitRank;
  window.accept(set_up);
  window.advance(60 * kSecond);
  EXPECT_THAT(calls_in(window), ElementsAre(1));
}

TEST(LiveWindow, RanksAreThoseOfAJobWithSeveral) {
  LiveWindow window;
  window.accept(process(1));
  EXPECT_FALSE(window.has_ranks());
  EXPECT_FALSE(window.has_collectives());
  window.accept(process(2, 1));
  EXPECT_TRUE(window.has_ranks());
}

TEST(LiveWindow, ANodeEndsNow) {
  LiveWindow window(kSmall);
  Node node;
  node.node_id = 1;
  node.started_ns = 1;
  window.accept(node);
  window.advance(50 * kSecond);
  ASSERT_EQ(window.nodes().value().size(), 1U);
  EXPECT_EQ(window.nodes().value()[0].ended_ns, 50 * kSecond);
}

}  // namespace
}  // namespace stalltrace::analysis
