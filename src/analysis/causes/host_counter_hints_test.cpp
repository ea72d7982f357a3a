// SPDX-License-Identifier: Apache-2.0
// Host counters during a stall are reported with its finding and do not change it.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// A host counter that rises by `per_second` from `from_second` on.
void count(MemorySource& source, int rank, const std::string& name, const std::string& detail, double per_second,
           int64_t from_second = 2) {
  for (int64_t second = -1; second <= kSteps * kStepNs / kNsPerSecond + 1; ++second) {
    const double value = 1'000 + per_second * static_cast<double>(std::max<int64_t>(0, second - from_second));
    source.accept(HostSample{node_of_rank(rank), kOriginNs + second * kNsPerSecond, name, detail, value});
  }
}

struct Hints {
  std::vector<Evidence> lines;
  Finding finding;  // the finding with the hints
};

/// Expects the finding of `source` to be the same as without host counters, except for the returned lines.
Hints expect_only_hints(MemorySource& source, MemorySource& without) {
  const Finding plain = only(without);
  Hints hints{.lines = {}, .finding = only(source)};
  EXPECT_EQ(hints.finding.cause, plain.cause);
  EXPECT_EQ(hints.finding.summary, plain.summary);
  EXPECT_EQ(hints.finding.remedy, plain.remedy);
  EXPECT_EQ(hints.finding.confidence, plain.confidence);
  EXPECT_EQ(hints.finding.stall_ms, plain.stall_ms);
  EXPECT_EQ(hints.finding.culprit.has_value(), plain.culprit.has_value());
  for (const Evidence& line : hints.finding.evidence) {
    const bool known =
        std::ranges::any_of(plain.evidence, [&](const Evidence& other) { return other.text == line.text; });
    if (!known) {
      EXPECT_EQ(line.kind, "host_sample");
      hints.lines.push_back(line);
    }
  }
  EXPECT_EQ(hints.finding.evidence.size(), plain.evidence.size() + hints.lines.size());
  return hints;
}

/// The hints of a job with healthy links whose rank 1 is late, with one host's counter.
Hints hints_of_starved(int rank, const std::string& name, double per_second) {
  MemorySource source = starved_job(true);
  MemorySource without = starved_job(true);
  count(source, rank, name, name.starts_with("net") ? "eth0" : "", per_second);
  return expect_only_hints(source, without);
}

TEST(HostCounterHints, MemoryPressureAtTheCulpritsHostIsMentioned) {
  const Hints some = hints_of_starved(1, "pressure_memory_some_us", 500'000);
  ASSERT_EQ(some.lines.size(), 1U);
  EXPECT_GT(some.lines[0].count, 0) << "ms of waiting";
  expect_golden_text("hint: some memory pressure", some.finding);
  const Hints full = hints_of_starved(1, "pressure_memory_full_us", 500'000);
  ASSERT_EQ(full.lines.size(), 1U);
  expect_golden_text("hint: full memory pressure", full.finding);
}

TEST(HostCounterHints, LittleMemoryPressureOrAnotherHostsIsNotMentioned) {
  EXPECT_TRUE(hints_of_starved(1, "pressure_memory_some_us", 50'000).lines.empty());
  EXPECT_TRUE(hints_of_starved(2, "pressure_memory_some_us", 500'000).lines.empty());
}

TEST(HostCounterHints, PacketsHaveNothingToDoWithARankWithoutACpu) {
  EXPECT_TRUE(hints_of_starved(1, "net_rx_drops", 500).lines.empty());
}

Hints hints_of_lossy(int rank, const std::string& name, const std::string& detail, double per_second,
                     int64_t from_second = 2) {
  MemorySource source = lossy_job();
  MemorySource without = lossy_job();
  count(source, rank, name, detail, per_second, from_second);
  return expect_only_hints(source, without);
}

TEST(HostCounterHints, CountersOfBothEndsOfALinkAreMentioned) {
  const Hints sender = hints_of_lossy(1, "net_rx_drops", "eth0", 100);
  ASSERT_EQ(sender.lines.size(), 1U);
  EXPECT_EQ(sender.lines[0].count, 399);
  expect_golden_text("hint: packets of an interface", sender.finding);
  const Hints receiver = hints_of_lossy(2, "softnet_drops", "cpu3", 100);
  ASSERT_EQ(receiver.lines.size(), 1U);
  EXPECT_EQ(receiver.lines[0].count, 399);
  expect_golden_text("hint: packets of a CPU", receiver.finding);
}

TEST(HostCounterHints, CountersOfOtherHostsOrOfOtherThingsAreNotMentioned) {
  EXPECT_TRUE(hints_of_lossy(3, "net_rx_drops", "eth0", 100).lines.empty());
  EXPECT_TRUE(hints_of_lossy(1, "pressure_memory_some_us", "", 500'000).lines.empty());
  EXPECT_TRUE(hints_of_lossy(1, "io_read_bytes", "11", 1'000'000).lines.empty());
}

TEST(HostCounterHints, WhatAHostCountsNowAndThenIsNotMentioned) {
  EXPECT_TRUE(hints_of_lossy(1, "net_rx_drops", "eth0", 0.5).lines.empty());
  EXPECT_TRUE(hints_of_lossy(1, "softnet_squeezes", "cpu0", 30).lines.empty());
  EXPECT_EQ(hints_of_lossy(1, "softnet_squeezes", "cpu0", 300).lines.size(), 1U);
}

/// A recording with one late stall of half a second; rank 1's card drops `usual` packets a second, and `then` more
/// during the stall.
Hints hints_of_one_stall(double usual, double then) {
  constexpr int64_t kStalled = 90;
  const auto job = [] {
    MemorySource source;
    Ending ending;
    ending.call = [](int rank, int64_t step, Collective& call) {
      const int64_t lost_ns = step == kStalled ? 500 * kNsPerMs : 0;
      call.timestamp_ns += step > kStalled ? 500 * kNsPerMs : 0;
      call.duration_ns = 5 * kNsPerMs + lost_ns - rank * 100 * kNsPerUs;
      return true;
    };
    fill(source, ending);
    connect(source);
    for (const bool in_loss : {true, false}) {
      TcpEvent event = event_of(1, TcpEventKind::kCongestionState, begin_of(kStalled) + (in_loss ? 2 : 499) * kNsPerMs);
      event.state = in_loss ? 4 : 0;
      source.accept(event);
    }
    return source;
  };
  MemorySource source = job();
  MemorySource without = job();
  for (int64_t second = -1; second < 10; ++second) {
    const int64_t time_ns = kOriginNs + second * kNsPerSecond;
    const double value = usual * static_cast<double>(second + 1) + (time_ns > begin_of(kStalled) ? then : 0);
    source.accept(HostSample{node_of_rank(1), time_ns, "net_rx_drops", "eth0", value});
  }
  return expect_only_hints(source, without);
}

TEST(HostCounterHints, ACounterThatAlwaysRisesSaysNothing) {
  EXPECT_TRUE(hints_of_one_stall(20, 0).lines.empty());
  EXPECT_EQ(hints_of_one_stall(20, 400).lines.size(), 1U);
  EXPECT_EQ(hints_of_one_stall(0, 20).lines.size(), 1U);
}

TEST(HostCounterHints, CountersAloneMakeNoFinding) {
  MemorySource source;
  fill(source, Ending{});
  connect(source);
  count(source, 1, "net_rx_drops", "eth0", 500);
  count(source, 1, "softnet_drops", "cpu0", 500);
  count(source, 1, "pressure_memory_some_us", "", 900'000);
  EXPECT_TRUE(report_of(source).findings.empty());
}

}  // namespace
}  // namespace stalltrace::analysis
