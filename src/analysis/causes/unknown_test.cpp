// SPDX-License-Identifier: Apache-2.0
// What is told of a hang whose cause nobody knows.
#include <gtest/gtest.h>

#include "analysis/testing/ring_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// All ranks are in the last call, which does not end; each has sent `moving` bytes in each second since.
Finding hang_with_traffic(uint64_t moving) {
  MemorySource source;
  fill(source, short_hang());
  connect(source);
  for (int64_t second = -1; second < 20; ++second) {
    for (int rank = 0; rank < kRanks; ++rank) {
      TcpSample sample = sample_of(rank, kOut, kLastArrivalNs + second * kNsPerSecond);
      sample.bytes_acked += moving * static_cast<uint64_t>(second + 1);
      source.accept(sample);
    }
  }
  return only(source);
}

TEST(Silence, OfTheWireIsToldWhereAllRanksAreInside) {
  const Finding finding = hang_with_traffic(0);
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_NE(finding.summary.find("All ranks are inside AllReduce number 99"), std::string::npos) << finding.summary;
  EXPECT_NE(finding.summary.find("the wire is silent"), std::string::npos) << finding.summary;
  EXPECT_EQ(hang_with_traffic(5'000).summary.find("silent"), std::string::npos);
}

}  // namespace
}  // namespace stalltrace::analysis
