// SPDX-License-Identifier: Apache-2.0
// What single processes of a job printed at their end, with nothing else in the logs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/events/imported/process_report.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kOutputBegin = int64_t{20'000} * 86'400 * kNsPerSecond;

struct EndOutput {
  std::vector<LogLine> lines;
  std::vector<int32_t> raised;

  void say(std::optional<int32_t> rank, std::string text, LogKind kind = LogKind::kWarning) {
    LogLine row{.node_id = 1, .timestamp_ns = kOutputBegin + std::ssize(lines), .rank = rank, .kind = kind};
    row.pid = rank ? 100 + *rank : 0;
    row.file = "job.log";
    row.line = std::ssize(lines) + 1;
    row.text = std::move(text);
    lines.push_back(std::move(row));
  }
  void timeout(int32_t rank) {
    say(rank,
        fmt::format("[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, "
                    "NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.",
                    rank),
        LogKind::kTimeout);
  }
  void ended(EndedProcess process) { say(process.rank, text_of(process)); }
  /// A traceback with an error of CUDA, as import/nccl_log records it.
  void raises(int32_t rank, std::string error) {
    say(rank, fmt::format("[rank{}]: Traceback (most recent call last):", rank), LogKind::kException);
    say(rank, std::move(error));
    raised.push_back(rank);
  }

  [[nodiscard]] Report explained() const {
    MemorySource source;
    Node node{.node_id = 1, .name = "node1", .hostname = "node1", .agent_version = "nccl_log"};
    node.started_ns = kOutputBegin;
    node.missing_evidence = kLacksDurations;
    source.accept(node);
    for (const LogLine& line : lines) {
      source.accept(line);
      if (line.kind == LogKind::kException && std::ranges::count(raised, *line.rank) > 0) {
        PythonException row{.node_id = 1, .timestamp_ns = line.timestamp_ns, .pid = line.pid};
        row.tid = row.pid;
        row.type = "RuntimeError";
        row.stack_id = 7;
        source.accept(row);
      }
    }
    source.accept(Stack{7, "step (/home/u/train.py:42)\nmain (/home/u/train.py:90)"});
    const auto result = explain(source);
    EXPECT_TRUE(result);
    return result ? result->report : Report();
  }
  [[nodiscard]] Finding only() const {
    const Report report = explained();
    EXPECT_EQ(report.findings.size(), 1U);
    return report.findings.empty() ? Finding() : report.findings[0];
  }
};

const std::string kEccInWatchdog =
    "[PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminated with exception: CUDA error: "
    "uncorrectable ECC error encountered";

TEST(ProcessReports, AnErrorOfTheGpuEndsTheHang) {
  EndOutput output;
  output.timeout(0);
  output.say(2, kEccInWatchdog);
  output.say(2, "  what():  CUDA error: uncorrectable ECC error encountered");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kDeviceError);
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_DOUBLE_EQ(finding.stall_ms, 600'001);
  expect_golden_text("device_error: CUDA in the watchdog", finding);
}

TEST(ProcessReports, AnExceptionWithAnErrorOfTheGpuIsNoErrorOfTheCode) {
  EndOutput output;
  output.raises(1, "CUDA error: uncorrectable NVLink error detected during the execution");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kDeviceError);
  EXPECT_EQ(finding.culprit->rank, 1);
  expect_golden_text("device_error: CUDA in a traceback", finding);
  EndOutput full;  // where the memory was asked for is in the program
  full.raises(1, "CUDA error: out of memory");
  EXPECT_EQ(full.only().cause, Cause::kDeadRank);
}

TEST(ProcessReports, AnErrorOfAKernelIsMostlyOneOfTheProgram) {
  EndOutput output;
  output.say(0, "[Rank 0] NCCL watchdog thread terminated with exception: CUDA error: misaligned address");
  const Finding finding = output.only();
  EXPECT_EQ(finding.severity, Severity::kHigh);
  expect_golden_text("device_error: CUDA on the program", finding);
  EndOutput aborted;  // its own collective was aborted before
  aborted.timeout(0);
  aborted.say(0, "[Rank 0] NCCL watchdog thread terminated with exception: CUDA error: unspecified launch failure");
  EXPECT_EQ(aborted.only().cause, Cause::kUnknown);
}

TEST(ProcessReports, AWatchdogThatStandsStill) {
  EndOutput output;
  for (const int rank : {3, 5}) {
    output.say(rank, fmt::format("[PG ID 2 PG GUID 9 Rank {}] ProcessGroupNCCL's watchdog got stuck for 480 seconds "
                                 "without making progress in monitoring enqueued collectives.",
                                 rank));
  }
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_FALSE(finding.culprit);
  EXPECT_FALSE(finding.cost_known);
  expect_golden_text("unknown: a watchdog that stands still", finding);
  output.timeout(0);  // ranks 3 and 5 are not silent
  expect_golden_text("unknown: a watchdog that stands still, and a timeout", output.only());
}

TEST(ProcessReports, APeerThatClosedTheConnection) {
  EndOutput output;
  output.say(
      1,
      "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: "
      "NCCL error: remote process exited or there was a network error, NCCL version 2.22.3");
  output.say(1, "socketProgress: Connection closed by remote peer node7.cluster<40123>");
  const Finding finding = output.only();
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("unknown: a peer closed the connection", finding);
  EndOutput warned;  // as at the end of a job
  warned.say(1, "socketProgress: Connection closed by remote peer node7.cluster<40123>");
  EXPECT_TRUE(warned.explained().findings.empty());
}

TEST(ProcessReports, TwoRanksOnOneGpu) {
  EndOutput output;
  output.say({}, "Duplicate GPU detected : rank 2 and rank 3 both on CUDA device c1000");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kInitFailure);
  expect_golden_text("init_failure: two ranks on one GPU", finding);
}

EndedProcess ended_process(int32_t rank, int32_t exit_code, std::string_view time, bool first = true) {
  return {.first = first,
          .rank = rank,
          .local_rank = rank % 4,
          .pid = 4000 + rank,
          .exit_code = exit_code,
          .host = rank < 4 ? "node1" : "node2",
          .time = time};
}

TEST(ProcessReports, TheFirstProcessThatTorchrunSawEnd) {
  EndOutput output;
  output.say({}, text_of(EndedProcess{.local_rank = 2, .pid = 4002, .exit_code = -9}));
  output.ended(ended_process(3, -15, "2026-05-05_10:00:33", false));
  output.ended(ended_process(2, -9, "2026-05-05_10:00:03"));
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kDeadRank);
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_EQ(finding.culprit->node, "node1");
  EXPECT_EQ(finding.culprit->pid, 4002);
  expect_golden_text("dead_rank: torchrun", finding);
  EndOutput line;
  line.say({}, text_of(EndedProcess{.local_rank = 2, .pid = 4002, .exit_code = -9}));
  EXPECT_FALSE(line.only().culprit);
  expect_golden_text("dead_rank: torchrun, of which no table is there", line.only());
}

TEST(ProcessReports, OfSeveralHostsTheEarliestCounts) {
  EndOutput output;
  output.ended(ended_process(5, 1, "2026-05-05_10:00:09"));
  output.ended(ended_process(1, -11, "2026-05-05_10:00:03"));
  EXPECT_EQ(output.only().culprit->rank, 1);
  for (const auto& [other, named] : std::vector<std::pair<std::string_view, bool>>{
           {"2026-05-05_10:00:07", false},  // clocks of hosts may differ by that
           {"2026-05-05_11:00:12", false},  // another time zone
           {"2026-05-05_12:59:40", false},
           {"2026-05-05_10:30:03", true},  // after the timeout of the others
           {"not a time", false}}) {
    EndOutput apart;
    apart.ended(ended_process(5, -11, other));
    apart.ended(ended_process(1, -11, "2026-05-05_10:00:03"));
    EXPECT_EQ(apart.only().culprit.has_value(), named) << other;
  }
  EndOutput together;
  together.ended(ended_process(5, -11, "2026-05-05_10:00:03"));
  together.ended(ended_process(1, -11, "2026-05-05_10:00:03"));
  EXPECT_FALSE(together.only().culprit);
  expect_golden_text("dead_rank: torchrun of two hosts", together.only());
}

TEST(ProcessReports, AnExitThatFollowsIsANote) {
  EndOutput asked;
  asked.ended(ended_process(1, -15, "2026-05-05_10:00:03"));
  EXPECT_TRUE(asked.explained().findings.empty());
  EndOutput aborted;  // by its own watchdog
  aborted.timeout(0);
  aborted.ended(ended_process(1, -6, "2026-05-05_10:00:03"));
  const Report report = aborted.explained();
  EXPECT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  EndOutput cut;  // before the root cause
  cut.ended(ended_process(1, 1, "2026-05-05_10:00:03", false));
  cut.ended(ended_process(2, -9, "2026-05-05_10:00:34", false));
  EXPECT_TRUE(cut.explained().findings.empty());
  golden::expect_text(
      fmt::format("{}\n{}\n{}", asked.explained().notes.back(), report.notes.back(), cut.explained().notes.back()));
}

}  // namespace
}  // namespace stalltrace::analysis
