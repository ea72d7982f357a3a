// SPDX-License-Identifier: Apache-2.0
// The golden texts cover every cause, including causes whose own tests check no text.
#include <gmock/gmock.h>

#include <array>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(FindingTexts, HoldEveryCause) {
  constexpr std::array kNames{
#define STALLTRACE_NAME(enumerator, name) name,
      STALLTRACE_CAUSES(STALLTRACE_NAME)
#undef STALLTRACE_NAME
  };
  std::string all;
  for (const auto& [name, text] : golden_texts()) {
    all += text;
  }
  for (const char* name : kNames) {
    EXPECT_THAT(all, testing::ContainsRegex("cause: " + std::string(name) + "[,\n]"));
  }
}

/// Rank 1 is late in every step from kSlowFrom on, and spends that time in `kind`.
Finding late_by(WaitKind kind) {
  constexpr int64_t kLateNs = 40 * kNsPerMs;
  MemorySource source;
  fill(source, late(1, kLateNs));
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    WaitSpan span = starved(begin_of(step), kLateNs, 0, "");
    span.kind = kind;
    source.accept(span);
  }
  return only(source);
}

TEST(FindingTexts, OfWhatALateRankDid) {
  const Finding computing = late_by(WaitKind::kOnCpu);
  expect_culprit(computing, Cause::kLateRank, 1);
  expect_golden_text("late_rank computing", computing);
  const Finding blocked = late_by(WaitKind::kBlocked);
  expect_culprit(blocked, Cause::kLateRank, 1);
  expect_golden_text("late_rank blocked", blocked);
  const Finding disk = late_by(WaitKind::kDisk);
  expect_culprit(disk, Cause::kDiskIo, 1);
  expect_golden_text("disk_io", disk);
  const Finding stopped = late_by(WaitKind::kStopped);
  expect_culprit(stopped, Cause::kProcessStopped, 1);
  expect_golden_text("process_stopped", stopped);
}

TEST(FindingTexts, OfAnotherProgramOnTheCore) {
  MemorySource source;
  fill(source, late(1, 40 * kNsPerMs));
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    source.accept(starved(begin_of(step), 40 * kNsPerMs, 4711, "stranger"));
  }
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kCpuContention, 1);
  expect_golden_text("cpu_contention by a stranger", finding);
  Competitor later = stranger(4711);  // the pid's next process
  later.start_ns = kOriginNs + kRecordedNs;
  later.cmdline = "innocent";
  source.accept(later);
  source.accept(stranger(4711));
  Competitor elsewhere = stranger(4711);
  elsewhere.node_id = node_of_rank(2);
  elsewhere.cmdline = "elsewhere";
  source.accept(elsewhere);
  const Finding named = only(source);
  expect_culprit(named, Cause::kCpuContention, 1);
  expect_golden_text("cpu_contention by a recorded competitor", named);
}

TEST(FindingTexts, OfARankThatNeverComes) {
  MemorySource source;
  fill(source, hang({2}));
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kMissingCollective, 2);
  expect_golden_text("missing_collective", finding);
}

/// All ranks are inside when rank 2 ends, and fail 153 ms later: the job ended, it did not hang.
TEST(FindingTexts, OfAJobThatEndedSoon) {
  Ending ending = hang();
  ending.process = [](int rank, Process& process) {
    exit_at(process, kLastArrivalNs + (rank == 2 ? 10 : 163) * kNsPerMs, rank == 2 ? 9 : 15);
  };
  MemorySource source;
  fill(source, ending);
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kDeadRank, 2);
  EXPECT_LT(finding.stall_ms, 200);
  expect_golden_text("dead_rank of a job that ended", finding);
}

TEST(FindingTexts, OfLossOnALink) {
  MemorySource source = lossy_job();
  const Finding finding = only(source);
  expect_link(finding, Cause::kPacketLoss, 1, 2);
  expect_golden_text("packet_loss", finding);
}

}  // namespace
}  // namespace stalltrace::analysis
