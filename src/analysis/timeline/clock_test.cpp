// SPDX-License-Identifier: Apache-2.0
// One clock for all nodes: exact within a host, bounded by causality between hosts.
#include "analysis/timeline/clock.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "analysis/thresholds/stalls.h"
#include "analysis/timeline/clock_offsets/clock_offsets.h"
#include "base/clock.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

Node node_of(NodeId id, const std::string& boot, int64_t clock_offset_ns = 0) {
  return {.node_id = id, .name = "node" + std::to_string(id), .boot_id = boot, .clock_offset_ns = clock_offset_ns};
}

TEST(Clock, NodesOfOneHostDifferByTheirOffsetsExactly) {
  const Clock clock = Clock::of({node_of(1, "a", 100), node_of(2, "a", 130), node_of(3, "b", 500)});
  EXPECT_EQ(clock.hosts(), 2U);
  EXPECT_EQ(clock.host(2), clock.host(1));
  EXPECT_EQ(clock.to_common(2, 1030), clock.to_common(1, 1000));
  EXPECT_EQ(clock.shift_ns(3), 0);
  EXPECT_EQ(clock.largest_shift_ns(), 30);
}

TEST(Clock, NodesOfOneHostHaveOneClockInWhateverOrderTheyCome) {
  const std::vector<Node> nodes{node_of(3, "a", 130), node_of(1, "a", 100), node_of(2, "a", 90)};
  const std::vector<Node> reversed(nodes.rbegin(), nodes.rend());
  const Clock one = Clock::of(nodes);
  const Clock other = Clock::of(reversed);
  for (const NodeId node : {1, 2, 3}) {
    EXPECT_EQ(one.to_common(node, 1000), other.to_common(node, 1000)) << node;
  }
  EXPECT_EQ(one.shift_ns(1), 0);
}

TEST(Clock, NodesWithoutABootIdAreHostsOfTheirOwn) {
  EXPECT_EQ(Clock::of({node_of(1, ""), node_of(2, "")}).hosts(), 2U);
}

/// Two hosts, the second a second ahead, with bounds this far apart.
Clock aligned(int64_t apart_ns) {
  const std::vector<Node> nodes{node_of(1, "a"), node_of(2, "b"), node_of(3, "b", 50)};
  Clock clock = Clock::of(nodes);
  OffsetBounds bounds(2, 0);
  bounds.add({{.last_arrival_ns = 0, .first_end_ns = apart_ns},
              {.last_arrival_ns = kNsPerSecond, .first_end_ns = kNsPerSecond}});
  clock.align(nodes, bounds);
  return clock;
}

TEST(Clock, AHostIsMovedToTheMiddleOfItsBounds) {
  const Clock clock = aligned(4 * kNsPerMs);
  EXPECT_EQ(clock.shift_ns(1), 0);
  EXPECT_EQ(clock.shift_ns(2), -kNsPerSecond + 2 * kNsPerMs);
  EXPECT_EQ(clock.shift_ns(3), clock.shift_ns(2) - 50);
  EXPECT_TRUE(clock.comparable(1, 2));
  EXPECT_EQ(clock.notes().size(), 1U);
  EXPECT_EQ(clock.error_ns(1), 0);
  EXPECT_EQ(clock.error_ns(2), 2 * kNsPerMs);
  EXPECT_EQ(clock.error_ns(3), 2 * kNsPerMs);  // one host
}

TEST(Clock, NothingBoundsTheErrorOfAHostThatWasNotAligned) {
  EXPECT_EQ(Clock::of({node_of(1, "a"), node_of(2, "a")}).error_ns(2), 0);
  EXPECT_EQ(Clock::of({node_of(1, "a"), node_of(2, "b")}).error_ns(2), std::nullopt);
  EXPECT_EQ(Clock::of({node_of(1, "a")}).error_ns(7), std::nullopt);
}

TEST(Clock, AnErrorLargerThanAStallMakesHostsIncomparable) {
  const Clock clock = aligned(2 * kStallFloorNs + 2);
  EXPECT_FALSE(clock.comparable(1, 2));
  EXPECT_TRUE(clock.comparable(2, 3));  // one host
}

TEST(Clock, AHostWithoutACommonCollectiveIsNotMoved) {
  const std::vector<Node> nodes{node_of(1, "a"), node_of(2, "b")};
  OffsetBounds bounds(2, 0);
  bounds.add({{.last_arrival_ns = 0}, {.last_arrival_ns = 5, .first_end_ns = 6}});
  Clock clock = Clock::of(nodes);
  clock.align(nodes, bounds);
  EXPECT_EQ(clock.shift_ns(2), 0);
  EXPECT_FALSE(clock.comparable(1, 2));
}

/// Two hosts whose clocks were measured; the second is a second ahead. With bounds this far apart from collectives; 0:
/// with none.
Clock measured(int64_t apart_ns, MeasuredClock second) {
  const std::vector<Node> nodes{node_of(1, "a"), node_of(2, "b"), node_of(3, "b", 50)};
  MemorySource source;
  for (const Node& node : nodes) {
    source.accept(node);
  }
  Cluster cluster = *Cluster::load(source);
  cluster.set_measured_clocks({{.node_id = 1, .offset_ns = 70, .error_ns = kNsPerMs}, second});
  OffsetBounds bounds(2, 0);
  bounds.add_host(0);
  bounds.add_host(1);
  if (apart_ns != 0) {
    bounds.add({{.last_arrival_ns = 0, .first_end_ns = apart_ns},
                {.last_arrival_ns = kNsPerSecond, .first_end_ns = kNsPerSecond}});
  }
  narrow_by_measured_clocks(cluster, bounds);
  cluster.align(bounds);
  return cluster.clock();
}

TEST(MeasuredClocks, AlignHostsWithoutACommonCollective) {
  const Clock clock = measured(0, {.node_id = 2, .offset_ns = kNsPerSecond + 70, .error_ns = 2 * kNsPerMs});
  EXPECT_EQ(clock.shift_ns(2), -kNsPerSecond);
  EXPECT_EQ(clock.shift_ns(3), clock.shift_ns(2) - 50);
  EXPECT_EQ(clock.error_ns(2), 3 * kNsPerMs);
  EXPECT_TRUE(clock.comparable(1, 2));
  EXPECT_EQ(clock.source(1), ClockSource::kSameBoot);
  EXPECT_EQ(clock.source(3), ClockSource::kAnswers);
  golden::expect_text(clock.notes().at(1));
}

TEST(MeasuredClocks, AnyNodeOfAHostStandsForIt) {
  const Clock clock = measured(0, {.node_id = 3, .offset_ns = kNsPerSecond + 120, .error_ns = 2 * kNsPerMs});
  EXPECT_EQ(clock.shift_ns(3), -kNsPerSecond - 50);
  EXPECT_EQ(clock.shift_ns(2), -kNsPerSecond);
}

TEST(MeasuredClocks, AnErrorLargerThanAStallAllowsNoVerdict) {
  const Clock clock = measured(0, {.node_id = 2, .offset_ns = kNsPerSecond + 70, .error_ns = kStallFloorNs});
  EXPECT_EQ(clock.error_ns(2), kStallFloorNs + kNsPerMs);
  EXPECT_FALSE(clock.comparable(1, 2));
}

TEST(MeasuredClocks, NarrowWhatCollectivesBoundLoosely) {
  const Clock clock =
      measured(30 * kNsPerMs, {.node_id = 2, .offset_ns = kNsPerSecond - 10 * kNsPerMs, .error_ns = kNsPerMs});
  EXPECT_TRUE(clock.comparable(1, 2));
  EXPECT_LE(clock.error_ns(2), 2 * kNsPerMs);
}

TEST(MeasuredClocks, ChangeNothingWhereCollectivesSayMore) {
  const Clock clock = measured(2 * kNsPerMs, {.node_id = 2, .offset_ns = kNsPerSecond + 70, .error_ns = 9 * kNsPerMs});
  EXPECT_EQ(clock.shift_ns(2), -kNsPerSecond + kNsPerMs);
  EXPECT_EQ(clock.error_ns(2), kNsPerMs);
  EXPECT_EQ(clock.source(2), ClockSource::kCollectives);
}

/// As after a clock was set between the recording and the question.
TEST(MeasuredClocks, ThatContradictCollectivesAreNotBelieved) {
  const Clock clock = measured(2 * kNsPerMs, {.node_id = 2, .offset_ns = 5 * kNsPerSecond, .error_ns = kNsPerMs});
  EXPECT_EQ(clock.shift_ns(2), -kNsPerSecond + kNsPerMs);
}

/// Two hosts whose clocks drift apart by 50 ppm, the second 5 s ahead, with an instance each second for a minute.
TEST(Clock, AHostThatDriftsIsMovedByALine) {
  constexpr int64_t kAheadNs = 5 * kNsPerSecond;
  constexpr int64_t kSeconds = 60;
  const auto second = [](int64_t time_ns) { return time_ns + kAheadNs + time_ns / 20'000; };
  const std::vector<Node> nodes{node_of(1, "a"), node_of(2, "b"), node_of(3, "b", 50)};
  Clock clock = Clock::of(nodes);
  OffsetBounds bounds(2, 0, {0, (kSeconds - 1) * kNsPerSecond + 1});
  for (int64_t i = 0; i < kSeconds; ++i) {
    const int64_t time_ns = i * kNsPerSecond;
    bounds.add({{.last_arrival_ns = time_ns, .first_end_ns = time_ns + 100 * kNsPerUs},
                {.last_arrival_ns = second(time_ns), .first_end_ns = second(time_ns + 100 * kNsPerUs)}});
  }
  clock.align(nodes, bounds);
  EXPECT_TRUE(clock.comparable(1, 2));
  ASSERT_LE(clock.error_ns(2).value_or(kStallFloorNs), 110 * kNsPerUs);
  int64_t before_ns = 0;
  for (int64_t i = 0; i < kSeconds; ++i) {
    const int64_t time_ns = i * kNsPerSecond;
    const int64_t common_ns = clock.to_common(2, second(time_ns));
    EXPECT_LE(std::abs(common_ns - time_ns), *clock.error_ns(2)) << i;
    EXPECT_EQ(clock.to_common(3, second(time_ns) + 50), common_ns);  // one host, whose agents' clocks are 50 ns apart
    EXPECT_GE(common_ns, before_ns);
    before_ns = common_ns;
    EXPECT_NEAR(static_cast<double>(clock.from_common(2, common_ns)), static_cast<double>(second(time_ns)), 1);
  }
  const int64_t largest_ns = clock.largest_shift_ns();
  EXPECT_GE(largest_ns, std::abs(clock.to_common(2, 1'000 * kNsPerSecond) - 1'000 * kNsPerSecond))
      << "far beside the job the distance stays as it is";
  EXPECT_LE(largest_ns, kAheadNs + 20 * kNsPerMs);
  ASSERT_EQ(clock.notes().size(), 1U);
  golden::expect_text(clock.notes()[0]);
}

TEST(Clock, HostsThatCanNotBeComparedAreOneNote) {
  std::vector<Node> nodes;
  for (NodeId id = 1; id <= 20; ++id) {
    nodes.push_back(node_of(id, std::to_string(id)));
  }
  OffsetBounds bounds(nodes.size(), 0);
  for (size_t host = 0; host < nodes.size(); ++host) {
    bounds.add_host(host);
  }
  Clock clock = Clock::of(nodes);
  clock.align(nodes, bounds);
  ASSERT_EQ(clock.notes().size(), 1U);
  golden::expect_text(clock.notes()[0]);
}

}  // namespace
}  // namespace stalltrace::analysis
