// SPDX-License-Identifier: Apache-2.0
// The evidence of a connection in one window, distinct from that in other windows.
#include "analysis/evidence/evidence.h"

#include <gtest/gtest.h>

#include "analysis/testing/ring_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// Rank 1 gets no acknowledgement from second 10 to 12, and again from 50 to 51, while its timer doubles.
TEST(Silence, IsThatOfTheWindow) {
  MemorySource source;
  fill(source, {});
  connect(source);
  const auto at = [](double seconds) { return kOriginNs + static_cast<int64_t>(seconds * kNsPerSecond); };
  const auto add = [&](double seconds, uint64_t acked, uint32_t unacked, uint8_t backoff) {
    TcpSample sample = sample_of(1, kOut, at(seconds));
    sample.bytes_acked = acked;
    sample.unacked_bytes = unacked;
    sample.backoff = backoff;
    source.accept(sample);
  };
  add(9, 1000, 0, 0);
  add(10, 1000, 500, 0);
  add(11, 1000, 500, 2);
  add(12, 1500, 0, 0);
  add(50, 1500, 500, 3);
  add(51, 2000, 0, 0);
  Cluster cluster = *Cluster::load(source);
  ASSERT_TRUE(Timeline::load(source, cluster));
  const Flows flows = *Flows::load(source, cluster);
  const EvidenceStore evidence = *EvidenceStore::load(source, cluster, flows, {{at(0), at(60)}});
  FlowIndex flow = 0;
  while (evidence.samples(flow).empty()) {
    ++flow;
  }
  for (const auto& [from, to] : {std::pair(9.0, 13.0), std::pair(10.5, 10.8), std::pair(11.5, 40.0)}) {
    const AckGap silence = evidence.silence(flow, {at(from), at(to)});
    EXPECT_EQ(silence.backoff, 2) << from;
    EXPECT_EQ(silence.time.from_ns, at(10)) << from;
    EXPECT_EQ(silence.time.to_ns, at(12)) << from;
  }
  EXPECT_EQ(evidence.silence(flow, {at(20), at(40)}).backoff, 0);
  EXPECT_EQ(evidence.silence(flow, {at(20), at(40)}).time.length(), 0);
  EXPECT_EQ(evidence.silence(flow, {at(40), at(60)}).backoff, 3);
  EXPECT_EQ(evidence.silence(flow, {at(52), at(60)}).time.length(), 0);
}

}  // namespace
}  // namespace stalltrace::analysis
