// SPDX-License-Identifier: Apache-2.0
// Marks, congestion notifications and waits for credit that rose with the stalls, at one node or everywhere.
#include <gtest/gtest.h>

#include "analysis/testing/fabric_job.h"
#include "analysis/testing/golden_text.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// Three senders are asked to slow down for what node 3 received with marks.
std::vector<CounterRates> incast() {
  std::vector<CounterRates> counters{{node_of_rank(3), "np_ecn_marked_roce_packets", 100, 50'000},
                                     {node_of_rank(3), "np_cnp_sent", 10, 20'000}};
  for (int rank = 0; rank < 3; ++rank) {
    counters.push_back({node_of_rank(rank), "rp_cnp_handled", 5, 7'000});
  }
  return counters;
}

TEST(Congestion, TheNodeThatReceivesTheMarksIsNamed) {
  MemorySource source = fabric_job(incast());
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kCongestion, 3);
  EXPECT_GE(count_of_kind(finding, "port_counter"), 5);
  expect_golden_text("congestion", finding);
}

TEST(Congestion, ASenderThatIsAskedToSlowDownIsNamed) {
  MemorySource source = fabric_job({{node_of_rank(1), "rx_cnp_pkts", 0, 7'000}});
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kCongestion, 1);
  golden::expect_text(finding.summary);
}

TEST(Congestion, EverywhereAlikeHasNoCulprit) {
  MemorySource source = fabric_job(everywhere("np_ecn_marked_roce_packets", 100, 50'000));
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kCongestion);
  EXPECT_FALSE(finding.culprit.has_value());
  expect_golden_text("congestion everywhere", finding);
}

TEST(Congestion, MarksThatAlwaysComeAreNone) {
  MemorySource source = fabric_job({{node_of_rank(3), "np_ecn_marked_roce_packets", 50'000, 50'000}});
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

TEST(Congestion, FewMarksAndShortWaitsAreNone) {
  MemorySource marks = fabric_job({{node_of_rank(3), "np_ecn_marked_roce_packets", 0, 500}});
  EXPECT_EQ(only(marks).cause, Cause::kUnknown);
  MemorySource waits = fabric_job({{node_of_rank(3), "port_xmit_wait", 1'000, 1'000'000}});
  EXPECT_EQ(only(waits).cause, Cause::kUnknown);
  MemorySource longer = fabric_job({{node_of_rank(3), "port_xmit_wait", 1'000, 100'000'000}});
  expect_culprit(only(longer), Cause::kCongestion, 3);
}

TEST(Congestion, ErrorsBesideItWin) {
  std::vector<CounterRates> counters = incast();
  counters.push_back({node_of_rank(2), "symbol_error", 0, 300});
  MemorySource source = fabric_job(counters);
  expect_culprit(only(source), Cause::kFabricErrors, 2);
}

TEST(Congestion, WithoutTimeToCompareWithMarksProveNothing) {
  MemorySource source;
  fill(source, slow());
  add_ports(source, {node_of_rank(0), node_of_rank(1), node_of_rank(2)});
  for (int64_t second = 2; second <= kSteps * kStepNs / kNsPerSecond; ++second) {  // the agent began in the stalls
    for (const char* name : {"port_xmit_data", "np_ecn_marked_roce_packets"}) {
      source.accept(PortCounter{node_of_rank(3), kOriginNs + second * kNsPerSecond, "mlx5_0", 1, name,
                                50'000 * static_cast<uint64_t>(second)});
    }
  }
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

}  // namespace
}  // namespace stalltrace::analysis
