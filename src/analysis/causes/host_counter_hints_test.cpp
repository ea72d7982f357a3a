// SPDX-License-Identifier: Apache-2.0
// What the hosts counted during a stall is told with its finding and changes nothing of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// A host's number that rises by `per_second` from `from_second` on.
void count(MemorySource& source, int rank, const std::string& name, const std::string& detail, double per_second,
           int64_t from_second = 2) {
  for (int64_t second = -1; second <= kSteps * kStepNs / kNsPerSecond + 1; ++second) {
    const double value = 1'000 + per_second * static_cast<double>(std::max<int64_t>(0, second - from_second));
    source.accept(HostSample{node_of_rank(rank), kOriginNs + second * kNsPerSecond, name, detail, value});
  }
}

/// The finding of `source` is what it would be without what the hosts count, but for the lines of evidence added.
std::string expect_only_hints(MemorySource& source, MemorySource& without) {
  const Finding told = only(source);
  const Finding plain = only(without);
  EXPECT_EQ(told.cause, plain.cause);
  EXPECT_EQ(told.summary, plain.summary);
  EXPECT_EQ(told.remedy, plain.remedy);
  EXPECT_EQ(told.confidence, plain.confidence);
  EXPECT_EQ(told.stall_ms, plain.stall_ms);
  EXPECT_EQ(told.culprit.has_value(), plain.culprit.has_value());
  EXPECT_LE(plain.evidence.size(), told.evidence.size());
  std::string hints;
  for (size_t i = plain.evidence.size(); i < told.evidence.size(); ++i) {
    EXPECT_EQ(told.evidence[i].kind, "host_sample");
    hints += told.evidence[i].text + "\n";
  }
  return hints;
}

/// A job whose links are healthy and whose rank 1 is late, with a number of one host; the hints told with the finding.
std::string hints_of_starved(int rank, const std::string& name, double per_second) {
  MemorySource source = starved_job(true);
  MemorySource without = starved_job(true);
  count(source, rank, name, name.starts_with("net") ? "eth0" : "", per_second);
  return expect_only_hints(source, without);
}

TEST(Meanwhile, MemoryPressureAtTheCulpritsHostIsTold) {
  const std::string some = hints_of_starved(1, "pressure_memory_some_us", 500'000);
  EXPECT_TRUE(some.starts_with("meanwhile processes on node1 waited for memory for ")) << some;
  EXPECT_NE(some.find("(PSI some)"), std::string::npos) << some;
  const std::string full = hints_of_starved(1, "pressure_memory_full_us", 500'000);
  EXPECT_TRUE(full.starts_with("meanwhile all processes on node1 waited for memory for ")) << full;
}

TEST(Meanwhile, LittleMemoryPressureOrAnotherHostsIsNotTold) {
  EXPECT_EQ(hints_of_starved(1, "pressure_memory_some_us", 50'000), "");
  EXPECT_EQ(hints_of_starved(2, "pressure_memory_some_us", 500'000), "");
}

TEST(Meanwhile, PacketsHaveNothingToDoWithARankWithoutACpu) { EXPECT_EQ(hints_of_starved(1, "net_rx_drops", 500), ""); }

std::string hints_of_lossy(int rank, const std::string& name, const std::string& detail, double per_second,
                           int64_t from_second = 2) {
  MemorySource source = lossy_job();
  MemorySource without = lossy_job();
  count(source, rank, name, detail, per_second, from_second);
  return expect_only_hints(source, without);
}

TEST(Meanwhile, CountersOfBothEndsOfALinkAreTold) {
  EXPECT_EQ(hints_of_lossy(1, "net_rx_drops", "eth0", 100),
            "meanwhile eth0 of node1 counted about 399 received packets dropped (net_rx_drops)\n");
  EXPECT_EQ(hints_of_lossy(2, "softnet_drops", "cpu3", 100),
            "meanwhile node2 counted about 399 packets dropped from a CPU's full queue (softnet_drops)\n");
}

TEST(Meanwhile, CountersOfOtherHostsOrOfOtherThingsAreNotTold) {
  EXPECT_EQ(hints_of_lossy(3, "net_rx_drops", "eth0", 100), "");
  EXPECT_EQ(hints_of_lossy(1, "pressure_memory_some_us", "", 500'000), "");
  EXPECT_EQ(hints_of_lossy(1, "io_read_bytes", "11", 1'000'000), "");
}

TEST(Meanwhile, WhatAHostCountsNowAndThenIsNotTold) {
  EXPECT_EQ(hints_of_lossy(1, "net_rx_drops", "eth0", 0.5), "");
  EXPECT_EQ(hints_of_lossy(1, "softnet_squeezes", "cpu0", 30), "");
  EXPECT_NE(hints_of_lossy(1, "softnet_squeezes", "cpu0", 300), "");
}

/// One stall of half a second late in a recording; rank 1's card drops `usual` packets a second, and `then` more in it.
std::string hints_of_one_stall(double usual, double then) {
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

TEST(Meanwhile, ACounterThatAlwaysRisesSaysNothing) {
  EXPECT_EQ(hints_of_one_stall(20, 0), "");
  EXPECT_NE(hints_of_one_stall(20, 400), "");
  EXPECT_NE(hints_of_one_stall(0, 20), "");
}

TEST(Meanwhile, CountersAloneMakeNoFinding) {
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
