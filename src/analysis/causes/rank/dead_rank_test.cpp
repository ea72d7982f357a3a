// SPDX-License-Identifier: Apache-2.0
// The description of how a rank died.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(OutOfMemory, IsProvenByTheKernelsChoice) {
  for (const bool chosen : {true, false}) {
    MemorySource source;
    Ending ending = hang({2});
    ending.process = [&](int rank, Process& process) {
      if (rank == 2) {
        exit_at(process, kLastArrivalNs - kNsPerMs, 9);
        process.oom_killed = chosen;
      }
    };
    fill(source, ending);
    const Finding finding = only(source);
    expect_culprit(finding, Cause::kDeadRank, 2);
    EXPECT_EQ(count_of_kind(finding, "mark_victim"), chosen ? 1 : 0);
    expect_golden_text(chosen ? "dead_rank out of memory" : "dead_rank", finding);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
