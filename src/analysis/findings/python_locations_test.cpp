// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a finding were in their program.
#include "analysis/findings/python_locations.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"
#include "analysis/thresholds/bounds.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr auto kTorch = "/usr/lib/python3/dist-packages/torch/";
constexpr int64_t kHangFromNs = kLastArrivalNs + kNsPerMs;
constexpr int64_t kReduce = 1;
constexpr int64_t kLoad = 2;
constexpr int64_t kPoll = 3;
constexpr int64_t kLoader = 4;
constexpr int64_t kWorker = 5;
constexpr int64_t kIdleWorker = 6;
constexpr int64_t kLoadElsewhere = 7;
constexpr int64_t kLoadAgain = 8;
constexpr int64_t kNative = 9;
constexpr int64_t kNativeWait = 10;

void add_native_stacks(MemorySource& source) {
  const std::string outer = "\nmain [/home/u/train]\n__libc_start_main [/usr/lib/x86_64-linux-gnu/libc.so.6]";
  source.accept(Stack{kNative,
                      "clock_nanosleep [/usr/lib/x86_64-linux-gnu/libc.so.6]\n"
                      "usleep [/usr/lib/x86_64-linux-gnu/libc.so.6]\ncompute_step(int) [/home/u/train]" +
                          outer});
  source.accept(Stack{kNativeWait,
                      "poll [/usr/lib/x86_64-linux-gnu/libc.so.6]\nopal_progress [/usr/lib/libopen-pal.so.40]\n"
                      "PMPI_Allreduce [/usr/lib/libmpi.so.40]" +
                          outer});
}

void add_stacks(MemorySource& source) {
  add_native_stacks(source);
  const std::string torch = kTorch;
  const std::string outer = "\ntrain (/home/u/train.py:88)\n<module> (/home/u/train.py:120)";
  const std::string worker = "\n_worker_loop (" + torch + "utils/data/_utils/worker.py:302)\n" +
                             "BaseProcess.run (/usr/lib/python3.11/multiprocessing/process.py:108)" + outer;
  source.accept(Stack{kReduce, "all_reduce (" + torch + "distributed/distributed_c10d.py:1541)" + outer});
  source.accept(Stack{kLoad, "load_batch (/home/u/data.py:212)" + outer});
  source.accept(Stack{kPoll, "poll (/usr/lib/python3.11/selectors.py:415)\nload_batch (/home/u/data.py:212)" + outer});
  source.accept(Stack{kLoader, "_try_get_data (" + torch + "utils/data/dataloader.py:1120)" + outer});
  source.accept(Stack{kWorker, "Data.__getitem__ (/home/u/data.py:14)" + worker});
  source.accept(Stack{kIdleWorker, "get (/usr/lib/python3.11/multiprocessing/queues.py:113)" + worker});
  source.accept(Stack{kLoadAgain, "load_again (/home/u/data.py:400)" + outer});
  source.accept(Stack{kLoadElsewhere, "load_other (/home/u/data.py:300)" + outer});
}

PythonStack sample(int rank, int64_t at_ns, int64_t stack, const std::string& activity = "") {
  return {.node_id = node_of_rank(rank),
          .timestamp_ns = at_ns,
          .duration_ns = 10 * kNsPerMs,
          .pid = 10 + rank,
          .rank_pid = 10 + rank,
          .tid = 10 + rank,
          .state = "S",
          .activity = activity,
          .stack_id = stack};
}

/// Rank 2 does not enter the last call; the recording ends 5 s later.
MemorySource absent_job() {
  MemorySource source;
  Ending ending = hang({2});
  ending.node = [](int, Node& node) { node.ended_ns = kLastArrivalNs + 5 * kNsPerSecond; };
  fill(source, ending);
  add_stacks(source);
  return source;
}

void add_waiting(MemorySource& source, int64_t at_ns) {
  for (const int rank : {0, 1, 3}) {
    source.accept(sample(rank, at_ns, kReduce, "waiting for another thread (futex)"));
  }
}

std::string locations_of(const Finding& finding) {
  const auto line = std::ranges::find(finding.evidence, "python_stack", &Evidence::kind);
  return line == finding.evidence.end() ? "" : line->text;
}

TEST(PythonLocations, AnAbsentRankAndThoseThatWait) {
  MemorySource source = absent_job();
  add_waiting(source, kHangFromNs + kNsPerSecond);
  source.accept(sample(2, kHangFromNs + kNsPerSecond, kLoad, "reading FIFO /data/in"));
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kMissingCollective, 2);
  EXPECT_EQ(locations_of(finding),
            "ranks 0, 1, 3 in all_reduce (train.py:88); rank 2 in load_batch (data.py:212), reading FIFO /data/in");
  golden::expect_text(finding.summary);
  EXPECT_EQ(evidence_of(finding, "python_stack").count, 4);
  expect_golden_text("missing_collective with Python stacks", finding);
}

/// Rank 2 computes and does not enter the last call; the recording ends 150 s later. A thread of it is sampled as
/// given, every 45 s.
Finding computing_job(const std::vector<int64_t>& stacks, int32_t tid = 12) {
  MemorySource source;
  Ending ending = hang({2});
  ending.node = [](int, Node& node) { node.ended_ns = kLastArrivalNs + 150 * kNsPerSecond; };
  fill(source, ending);
  add_stacks(source);
  WaitSpan span{.node_id = node_of_rank(2), .timestamp_ns = kLastArrivalNs, .window_ns = 150 * kNsPerSecond};
  span.waited_ns = span.window_ns;
  span.kind = WaitKind::kOnCpu;
  span.pid = span.tid = 12;
  source.accept(span);
  for (size_t i = 0; i < stacks.size(); ++i) {
    PythonStack row = sample(2, kHangFromNs + static_cast<int64_t>(1 + 45 * i) * kNsPerSecond, stacks[i], "running");
    row.tid = tid;
    source.accept(row);
  }
  return only(source);
}

TEST(PythonLocations, ARankThatIsAtOneLineInAllLooksHangs) {
  const Finding finding = computing_job({kLoad, kLoad, kLoad, kLoad});
  expect_culprit(finding, Cause::kMissingCollective, 2);
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_EQ(finding.evidence.back().kind, "python_stack");
  EXPECT_EQ(computing_job({kLoad, kLoad, kLoadElsewhere, kLoad}).severity, Severity::kWaiting);
  EXPECT_EQ(computing_job({kLoad, kPoll, kLoad, kPoll}).severity, Severity::kWaiting) << "its own line, and beyond it";
  EXPECT_EQ(computing_job({kLoad, kLoad}).severity, Severity::kWaiting) << "by chance";
}

TEST(PythonLocations, AThreadBesideTheMainThreadProvesNoHang) {
  EXPECT_EQ(computing_job({kLoad, kLoad, kLoad, kLoad}).severity, Severity::kCritical);
  EXPECT_EQ(computing_job({kLoad, kLoad, kLoad, kLoad}, 77).severity, Severity::kWaiting) << "it may wait for work";
}

TEST(PythonLocations, TheProgramsLineAndTheInnermost) {
  MemorySource source = absent_job();
  source.accept(sample(2, kHangFromNs + kNsPerSecond, kPoll, "waiting for TCP 10.0.0.1:4 -> 10.0.0.2:5 (ESTABLISHED)"));
  golden::expect_text(only(source).summary);
}

TEST(PythonLocations, NativeFramesWhereARankIsNotPython) {
  MemorySource source = absent_job();
  for (const int rank : {0, 1, 3}) {
    source.accept(sample(rank, kHangFromNs + kNsPerSecond, kNativeWait, "waiting for 9 descriptors"));
  }
  source.accept(sample(2, kHangFromNs + kNsPerSecond, kNative, "sleeping (clock_nanosleep)"));
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kMissingCollective, 2);
  golden::expect_text(locations_of(finding));
  golden::expect_text(finding.summary);
}

/// It has native frames only while it waits: where it usually runs, they do not say where it was.
TEST(PythonLocations, NativeFramesOfARankThatMostlyRuns) {
  const auto found_with = [](int running) {
    MemorySource source = absent_job();
    source.accept(sample(2, kHangFromNs + kNsPerSecond, kNative, "sleeping (clock_nanosleep)"));
    for (int i = 0; i < running; ++i) {
      source.accept(sample(2, kHangFromNs + (i + 2) * kNsPerSecond, 0, "running"));
    }
    return only(source);
  };
  EXPECT_THAT(found_with(1).summary, HasSubstr("compute_step"));
  const Finding finding = found_with(2);
  EXPECT_THAT(finding.summary, Not(HasSubstr("compute_step")));
  EXPECT_THAT(locations_of(finding), EndsWith("(in 1 of 3 samples)"));
}

TEST(PythonLocations, ARankWithoutPythonThatRunsIsNotNamed) {
  MemorySource source = absent_job();
  add_waiting(source, kHangFromNs + kNsPerSecond);
  source.accept(sample(2, kHangFromNs + kNsPerSecond, 0, "running"));
  EXPECT_EQ(locations_of(only(source)), "ranks 0, 1, 3 in all_reduce (train.py:88)");
}

TEST(PythonLocations, ANativeFunctionWithoutALineProvesNoHang) {
  EXPECT_EQ(computing_job({kLoad, kLoad, kLoad, kLoad}).severity, Severity::kCritical);
  EXPECT_EQ(computing_job({kNative, kNative, kNative, kNative}).severity, Severity::kWaiting);
  EXPECT_EQ(computing_job({kLoad, kLoad, kNative, kLoad}).severity, Severity::kCritical)
      << "once Python's were not read";
}

TEST(PythonLocations, NothingIsClaimedFromOutsideTheStall) {
  MemorySource source = absent_job();
  source.accept(sample(2, kLastArrivalNs - kNsPerSecond, kLoad));                 // before
  source.accept(sample(2, kLastArrivalNs + 5 * kNsPerSecond - kNsPerMs, kLoad));  // ends after it
  source.accept(sample(2, kLastArrivalNs + 6 * kNsPerSecond, kLoad));             // after
  const Finding finding = only(source);
  EXPECT_EQ(locations_of(finding), "");
  golden::expect_text(finding.summary);
}

TEST(PythonLocations, OfSeveralLooksTheMostDecide) {
  MemorySource source = absent_job();
  for (const int64_t second : {1, 2, 3}) {
    source.accept(sample(2, kHangFromNs + second * kNsPerSecond, second == 2 ? kLoadElsewhere : kLoad));
  }
  golden::expect_text(only(source).summary);
  source.accept(sample(2, kHangFromNs + 4 * kNsPerSecond, kLoadAgain));
  source.accept(sample(2, kHangFromNs + 4 * kNsPerSecond + kNsPerMs, kPoll + 100));  // without frames
  source.accept(sample(2, kHangFromNs + 4 * kNsPerSecond + 2 * kNsPerMs, kLoader));
  const Finding scattered = only(source);
  golden::expect_text(scattered.summary);
  EXPECT_EQ(locations_of(scattered), "rank 2 in load_batch (data.py:212) (in 2 of 5 samples)");
}

TEST(PythonLocations, AWorkerThatTheRankWaitsFor) {
  MemorySource source = absent_job();
  const int64_t at_ns = kHangFromNs + kNsPerSecond;
  source.accept(sample(2, at_ns, kLoader, "waiting for pipe:[9]"));
  PythonStack idle = sample(2, at_ns + 20 * kNsPerMs, kIdleWorker, "waiting for pipe:[7]");
  idle.pid = 76;
  source.accept(idle);
  PythonStack worker = sample(2, at_ns + 40 * kNsPerMs, kWorker, "sleeping (clock_nanosleep)");
  worker.pid = 77;
  source.accept(worker);
  for (const PythonStack& row : {sample(2, at_ns, kLoader, "waiting for pipe:[9]"), idle, worker}) {  // the next sample
    PythonStack again = row;
    again.timestamp_ns += kNsPerSecond;
    source.accept(again);
  }
  golden::expect_text(only(source).summary);
}

TEST(PythonLocations, AGarbageCollectionIsNamed) {
  MemorySource source = absent_job();
  PythonStack row = sample(2, kHangFromNs + kNsPerSecond, kLoad, "running");
  row.collecting = true;
  source.accept(row);
  golden::expect_text(only(source).summary);
}

TEST(PythonLocations, WhatCouldNotBeReadIsReported) {
  MemorySource source = absent_job();
  PythonStack row = sample(2, kHangFromNs + kNsPerSecond, 0);
  row.problem = "it could not be read within 500 ms";
  source.accept(row);
  const Finding finding = only(source);
  golden::expect_text(locations_of(finding));
  golden::expect_text(finding.summary);
}

TEST(PythonLocations, ManyEarlySamplesLeaveRoomForLaterOnes) {
  MemorySource source = absent_job();
  for (int64_t i = 0; i < kMostPythonStacks; ++i) {
    source.accept(sample(0, kHangFromNs + i * kNsPerUs, kReduce));
  }
  source.accept(sample(2, kHangFromNs + 3 * kNsPerSecond, kLoad));
  const Report report = report_of(source);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  golden::expect_text(report.findings[0].summary);
  const auto note = std::ranges::find_if(
      report.notes, [](const std::string& text) { return text.find("Python") != std::string::npos; });
  ASSERT_NE(note, report.notes.end());
  golden::expect_text(*note);
}

TEST(PythonLocations, ALateRankWasThere) {
  MemorySource source;
  fill(source, late(1, 30 * kNsPerMs));
  for (int64_t step = kSlowFrom; step < kSteps; ++step) {
    WaitSpan span{.node_id = node_of_rank(1), .timestamp_ns = begin_of(step), .window_ns = 30 * kNsPerMs};
    span.waited_ns = span.window_ns;
    span.pid = span.tid = 11;
    source.accept(span);
  }
  add_stacks(source);
  for (const int64_t step : {50, 60, 70}) {
    PythonStack row = sample(1, begin_of(step) + 5 * kNsPerMs, kLoad, "sleeping (clock_nanosleep)");
    source.accept(row);
    row.timestamp_ns += 35 * kNsPerMs;  // in the transfer: no longer late
    row.stack_id = kReduce;
    source.accept(row);
  }
  const Finding finding = only(source);
  expect_culprit(finding, Cause::kLateRank, 1);
  golden::expect_text(finding.summary);
}

/// A dump alone: the location of most main threads comes last.
TEST(DumpedStacks, MainThreadsAtOneLocationAreOneNote) {
  MemorySource source;
  Node node{.node_id = 1, .name = "dump.txt", .agent_version = "py_spy", .started_ns = 5};
  node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
  source.accept(node);
  source.accept(Stack{7, "all_reduce (distributed.py:20)\nstep (train.py:88)"});
  source.accept(Stack{8, "read (data.py:3)\nstep (train.py:80)"});
  for (const int32_t pid : {811, 812, 813}) {
    PythonStack row{.node_id = 1, .timestamp_ns = 5, .pid = pid, .rank_pid = pid};
    row.tid = pid;
    row.stack_id = pid == 812 ? 8 : 7;
    source.accept(row);
    row.tid = pid + 100;
    row.stack_id = 8;
    source.accept(row);
  }
  const auto result = explain(source);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->report.findings.empty());
  EXPECT_TRUE(result->report.has_others_evidence);
  golden::expect_text(fmt::format("{}", fmt::join(result->report.notes, "\n")));
}

}  // namespace
}  // namespace stalltrace::analysis
