// SPDX-License-Identifier: Apache-2.0
// What kernels report of their clocks bounds the offsets of hosts, unless something contradicts it.
#include "analysis/timeline/clock_offsets/kernel_clocks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/thresholds/stalls.h"
#include "analysis/timeline/cluster.h"
#include "base/clock.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kStart = 1'800'000'000LL * kNsPerSecond;
constexpr int64_t kMinuteNs = 60 * kNsPerSecond;
constexpr int64_t kMinutes = 10;
constexpr double kRoundingNs = 1000;  // drift over no time counts as its ppm in ns

Node node_with_boot(NodeId id, const std::string& boot, int64_t clock_offset_ns = 0) {
  return {.node_id = id, .name = "node" + std::to_string(id), .boot_id = boot, .clock_offset_ns = clock_offset_ns};
}

/// Two hosts whose ranks were in calls for ten minutes, with a reading each minute. By default node 1 has UTC, and the
/// clock of node 2 is a second ahead.
struct Hosts {
  /// By how much the clock of node 2 is ahead, that much after the start.
  std::function<int64_t(int64_t since_ns)> ahead_ns = [](int64_t) { return kNsPerSecond; };
  /// What the kernel of node 2 reports; by default what is true.
  std::function<int64_t(int64_t since_ns)> reported_ahead_ns;
  std::function<std::optional<int64_t>(int64_t since_ns)> error_ns = [](int64_t) { return kNsPerMs; };
  std::optional<int64_t> collectives_apart_ns;  // bounds of collectives, at the start
  NodeId of_node = 2;                           // whose rows the readings of the second host are

  [[nodiscard]] Cluster loaded() const {
    MemorySource source;
    source.accept(node_with_boot(1, "a"));
    source.accept(node_with_boot(2, "b"));
    source.accept(node_with_boot(3, "b", 50));
    for (int64_t since_ns = 0; since_ns <= kMinutes * kMinuteNs; since_ns += kMinuteNs) {
      const int64_t utc_ns = kStart + since_ns;
      source.accept(ClockReading{.node_id = 1, .timestamp_ns = utc_ns, .utc_ns = utc_ns, .max_error_ns = 2 * kNsPerMs});
      const int64_t time_ns = utc_ns + ahead_ns(since_ns);
      const int64_t reported_ns = reported_ahead_ns ? reported_ahead_ns(since_ns) : ahead_ns(since_ns);
      source.accept(ClockReading{.node_id = of_node,
                                 .timestamp_ns = time_ns + (of_node == 3 ? 50 : 0),
                                 .utc_ns = time_ns - reported_ns,
                                 .max_error_ns = error_ns(since_ns)});
    }
    return *Cluster::load(source);
  }
  [[nodiscard]] Clock aligned() const {
    Cluster cluster = loaded();
    OffsetBounds bounds(2, 0, {kStart, kStart + kMinutes * kMinuteNs});
    bounds.add_host(0);
    bounds.add_host(1);
    if (collectives_apart_ns) {
      bounds.add({{.last_arrival_ns = kStart, .first_end_ns = kStart + *collectives_apart_ns},
                  {.last_arrival_ns = kStart + kNsPerSecond, .first_end_ns = kStart + kNsPerSecond}});
    }
    narrow_by_kernel_clocks(cluster.kernel_clocks(), bounds);
    cluster.align(bounds);
    return cluster.clock();
  }
};

TEST(KernelClocks, AlignHostsWithoutACommonCollective) {
  const Clock clock = Hosts().aligned();
  EXPECT_EQ(clock.shift_ns(2), -kNsPerSecond);
  EXPECT_EQ(clock.shift_ns(3), -kNsPerSecond - 50);
  EXPECT_EQ(clock.source(1), ClockSource::kSameBoot);
  EXPECT_EQ(clock.source(3), ClockSource::kKernel);
  ASSERT_TRUE(clock.error_ns(2));
  EXPECT_NEAR(static_cast<double>(*clock.error_ns(2)), 3e6, kRoundingNs);
  EXPECT_TRUE(clock.comparable(1, 2));
  ASSERT_EQ(clock.notes().size(), 2U);
  golden::expect_text(clock.notes()[1]);
}

TEST(KernelClocks, AnyNodeOfAHostStandsForIt) {
  Hosts hosts;
  hosts.of_node = 3;
  const Clock clock = hosts.aligned();
  EXPECT_EQ(clock.shift_ns(2), -kNsPerSecond);
  EXPECT_EQ(clock.shift_ns(3), -kNsPerSecond - 50);
}

TEST(KernelClocks, AnErrorLargerThanAStallAllowsNoVerdict) {
  Hosts hosts;
  hosts.error_ns = [](int64_t) { return kStallFloorNs; };
  const Clock clock = hosts.aligned();
  ASSERT_TRUE(clock.error_ns(2));
  EXPECT_GE(*clock.error_ns(2), kStallFloorNs + 2 * kNsPerMs);
  EXPECT_FALSE(clock.comparable(1, 2));
}

TEST(KernelClocks, NothingKeepsTheClockRight) {
  Hosts hosts;
  hosts.error_ns = [](int64_t) { return std::nullopt; };
  const Clock clock = hosts.aligned();
  EXPECT_EQ(clock.error_ns(2), std::nullopt);
  EXPECT_EQ(clock.source(2), ClockSource::kUnknown);
  EXPECT_FALSE(clock.comparable(1, 2));
}

TEST(KernelClocks, NarrowWhatCollectivesBoundLoosely) {
  Hosts hosts;
  hosts.collectives_apart_ns = 30 * kNsPerMs;
  const Clock clock = hosts.aligned();
  EXPECT_EQ(clock.source(2), ClockSource::kKernel);
  EXPECT_LE(*clock.error_ns(2), 5 * kNsPerMs);
  EXPECT_LE(std::abs(clock.to_common(2, kStart + kNsPerSecond) - kStart), *clock.error_ns(2));
}

TEST(KernelClocks, ThatContradictCollectivesAreNotBelieved) {
  Hosts hosts;
  hosts.collectives_apart_ns = 2 * kNsPerMs;
  hosts.reported_ahead_ns = [](int64_t) { return 1500 * kNsPerMs; };
  const Clock clock = hosts.aligned();
  EXPECT_EQ(clock.shift_ns(2), -kNsPerSecond + kNsPerMs);
  EXPECT_EQ(clock.source(2), ClockSource::kCollectives);
  ASSERT_EQ(clock.notes().size(), 2U);
  golden::expect_text(clock.notes()[1]);
}

/// It was far off while its kernel called it right.
TEST(KernelClocks, AClockThatWasSetByMoreThanItsErrorIsNotBelieved) {
  Hosts hosts;
  hosts.reported_ahead_ns = [](int64_t since_ns) { return (since_ns < 5 * kMinuteNs ? 5 : 1) * kNsPerSecond; };
  const Clock clock = hosts.aligned();
  EXPECT_EQ(clock.shift_ns(2), 0);
  EXPECT_FALSE(clock.comparable(1, 2));
  ASSERT_EQ(clock.notes().size(), 2U);
  golden::expect_text(clock.notes()[1]);
}

TEST(KernelClocks, AClockThatWasSetBeforeItWasRightIsBelievedFromThenOn) {
  Hosts hosts;
  hosts.reported_ahead_ns = [](int64_t since_ns) { return (since_ns < 5 * kMinuteNs ? 5 : 1) * kNsPerSecond; };
  hosts.error_ns = [](int64_t since_ns) {
    return since_ns < 5 * kMinuteNs ? std::nullopt : std::optional<int64_t>(kNsPerMs);
  };
  const Clock clock = hosts.aligned();
  EXPECT_EQ(clock.source(2), ClockSource::kKernel);
  EXPECT_EQ(clock.shift_ns(2), -kNsPerSecond);
  EXPECT_GT(*clock.error_ns(2), 4 * kNsPerMs) << "nothing is known of the time before but how clocks drift";
}

/// 50 ppm are 30 ms in these ten minutes.
TEST(KernelClocks, DriftIsFound) {
  Hosts hosts;
  hosts.ahead_ns = [](int64_t since_ns) { return kNsPerSecond + since_ns / 20'000; };
  const Clock clock = hosts.aligned();
  EXPECT_NEAR(clock.line(2).drift.rate * 1e6, -50, 1);
  EXPECT_TRUE(clock.comparable(1, 2));
  for (int64_t since_ns = 0; since_ns <= kMinutes * kMinuteNs; since_ns += kMinuteNs / 2) {
    const int64_t common_ns = clock.to_common(2, kStart + since_ns + hosts.ahead_ns(since_ns));
    EXPECT_LE(std::abs(common_ns - kStart - since_ns), *clock.error_ns(2)) << since_ns;
  }
}

TEST(KernelClocks, OfALongRecordingAreThinnedOut) {
  const std::vector<Node> nodes{node_with_boot(1, "a"), node_with_boot(2, "b")};
  MemorySource source;
  for (int64_t minute = 0; minute < 3000; ++minute) {
    const int64_t utc_ns = kStart + minute * kMinuteNs;
    source.accept(ClockReading{.node_id = 2, .timestamp_ns = utc_ns, .utc_ns = utc_ns, .max_error_ns = kNsPerMs});
  }
  const KernelClocks clocks = *load_kernel_clocks(source, Clock::of(nodes));
  ASSERT_EQ(clocks.size(), 1U);
  const std::vector<UtcReading>& kept = clocks.at(1);
  EXPECT_GE(kept.size(), 100U);
  EXPECT_LE(kept.size(), 256U);
  EXPECT_EQ(kept.front().at_ns, kStart);
  EXPECT_GE(kept.back().at_ns, kStart + 2900 * kMinuteNs);
  for (size_t i = 2; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].at_ns - kept[i - 1].at_ns, kept[1].at_ns - kept[0].at_ns);
  }
}

/// Readings of one minute are compared: agents that were started at other times keep the same ones.
TEST(KernelClocks, OfLongRecordingsTheSameMinutesAreKept) {
  const std::vector<Node> nodes{node_with_boot(1, "a"), node_with_boot(2, "b")};
  MemorySource source;
  for (const NodeId node : {NodeId{1}, NodeId{2}}) {
    for (int64_t minute = node == 1 ? 0 : 3; minute < 3000; ++minute) {
      const int64_t utc_ns = kStart + minute * kMinuteNs;
      source.accept(ClockReading{.node_id = node, .timestamp_ns = utc_ns, .utc_ns = utc_ns, .max_error_ns = kNsPerMs});
    }
  }
  const KernelClocks clocks = *load_kernel_clocks(source, Clock::of(nodes));
  ASSERT_EQ(clocks.size(), 2U);
  std::set<int64_t> minutes;
  for (const UtcReading& reading : clocks.at(0)) {
    minutes.insert(reading.utc_ns());
  }
  for (const UtcReading& reading : clocks.at(1)) {
    EXPECT_TRUE(minutes.contains(reading.utc_ns()));
  }
}

/// Then the reference's kernel may be what is wrong, and nothing would show that of a host without common collectives.
TEST(KernelClocks, WhereOneHostContradictsHostsWithNothingElseAreNotCompared) {
  for (const bool contradicts : {false, true}) {
    OffsetBounds bounds(3, 0, {kStart, kStart + kMinuteNs});
    for (size_t host = 0; host < 3; ++host) {
      bounds.add_host(host);
    }
    HostEdge edge{.last_arrival_ns = kStart, .first_end_ns = kStart + kNsPerMs};
    bounds.add({edge, edge, HostEdge()});
    const UtcReading right{.at_ns = kStart, .ahead_ns = 0, .error_ns = kNsPerMs};
    const UtcReading wrong{.at_ns = kStart, .ahead_ns = -500 * kNsPerMs, .error_ns = kNsPerMs};
    narrow_by_kernel_clocks({{0, {contradicts ? wrong : right}}, {1, {right}}, {2, {right}}}, bounds);
    EXPECT_EQ(bounds.bounds(1).doubt == KernelDoubt::kContradicts, contradicts);
    EXPECT_EQ(bounds.bounds(2).known(), !contradicts);
  }
}

TEST(KernelClocks, ASlewedClockAgreesWithItself) {
  const UtcReading first{.at_ns = 0, .ahead_ns = 0, .error_ns = kNsPerMs};
  EXPECT_TRUE(agree({}));
  const auto agrees_with = [&](int64_t ahead_ns) {
    const std::vector<UtcReading> readings{first, {.at_ns = kMinuteNs, .ahead_ns = ahead_ns, .error_ns = kNsPerMs}};
    return agree(readings);
  };
  EXPECT_TRUE(agrees_with(32 * kNsPerMs));  // 500 ppm of a minute are 30 ms
  EXPECT_FALSE(agrees_with(33 * kNsPerMs));
}

TEST(KernelClocks, TheNearestReadingsAreCompared) {
  const std::vector<UtcReading> reference{{.at_ns = 0, .ahead_ns = kStart, .error_ns = 1000},
                                          {.at_ns = kMinuteNs, .ahead_ns = kStart, .error_ns = 3000}};
  const int64_t at_ns = 40 * kNsPerSecond;
  const std::vector<UtcReading> host{{.at_ns = at_ns - 70, .ahead_ns = kStart + 70, .error_ns = 500}};
  const std::vector<TimedBounds> bounds = bounds_between(reference, host);
  ASSERT_EQ(bounds.size(), 1U);
  const int64_t error_ns = 3000 + 500 + 2 * kNsPerMs + 100;  // 100 ppm of 20 s
  EXPECT_EQ(bounds[0].at_ns, at_ns);
  EXPECT_EQ(bounds[0].low_ns, 70 - error_ns);
  EXPECT_EQ(bounds[0].high_ns, 70 + error_ns);
  EXPECT_TRUE(bounds_between({}, host).empty());
}

}  // namespace
}  // namespace stalltrace::analysis
