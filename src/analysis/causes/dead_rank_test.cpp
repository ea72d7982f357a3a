// SPDX-License-Identifier: Apache-2.0
// What is said of how a rank died.
#include <gtest/gtest.h>

#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(OutOfMemory, IsProvenByTheKernelsChoice) {
  for (const bool chosen : {true, false}) {
    MemorySource source;
    Ending ending;
    ending.call = [](int rank, int64_t step, Collective& call) {
      if (step == kSteps - 1) {
        leave_open(call);
      }
      return step < kSteps - 1 || rank != 2;
    };
    ending.process = [&](int rank, Process& process) {
      if (rank == 2) {
        process.exit_ns = kLastArrivalNs - kNsPerMs;
        process.exit_signal = 9;
        process.oom_killed = chosen;
      }
    };
    fill(source, ending);
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, Cause::kDeadRank);
    EXPECT_EQ(finding.culprit->rank, 2);
    EXPECT_EQ(finding.summary.find("out of memory") != std::string::npos, chosen) << finding.summary;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
