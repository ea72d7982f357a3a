// SPDX-License-Identifier: Apache-2.0
// Errors counted by a port that carries data and by an idle port.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// The counters of rank 3's port, each second; the job is slow from kSlowFrom on.
MemorySource job_with_port(bool carries_data) {
  MemorySource source;
  fill(source, slow());
  for (int64_t second = 0; second <= kSteps * kStepNs / kNsPerSecond; ++second) {
    PortCounter row{node_of_rank(3), kOriginNs + second * kNsPerSecond, "mlx5_0", 1, "symbol_error", 0};
    row.value = second < 2 ? 7 : 7 + 300 * static_cast<uint64_t>(second - 1);
    source.accept(row);
    if (carries_data) {
      row.name = "port_xmit_data";
      row.value = 1'000'000 * static_cast<uint64_t>(second);
      source.accept(row);
    }
  }
  return source;
}

TEST(FabricErrors, ThePortThatCountsErrorsIsNamed) {
  MemorySource source = job_with_port(true);
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kFabricErrors, 3);
  EXPECT_GT(evidence_of(finding, "port_counter").count, 300);
  expect_golden_text("fabric_errors", finding);
}

TEST(FabricErrors, AnIdlePortsErrorsAreNoCause) {
  MemorySource source = job_with_port(false);
  EXPECT_EQ(only(source).cause, Cause::kUnknown);
}

}  // namespace
}  // namespace stalltrace::analysis
