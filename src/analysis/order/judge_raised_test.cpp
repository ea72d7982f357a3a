// SPDX-License-Identifier: Apache-2.0
// Which rank raised first, by the lines of a job's output.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/events/imported/logged_exception.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kRaisedBegin = int64_t{20'000} * 86'400 * kNsPerSecond;  // 2024-10-04

/// Lines of several ranks in one file, or in one file each.
struct RaisedOutput {
  bool one_file = true;
  MemorySource source;
  int64_t line = 0;

  explicit RaisedOutput(bool together = true) : one_file(together) {
    Node node{.node_id = 1, .name = "log", .agent_version = "nccl_log", .started_ns = kRaisedBegin};
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksPids);
    source.accept(node);
  }
  int64_t say(int32_t rank, LogKind kind, std::string text, int32_t pid) {
    ++line;
    LogLine row{
        .node_id = 1, .timestamp_ns = kRaisedBegin + line, .pid = pid, .rank = rank, .kind = kind, .line = line};
    row.file = one_file ? "job.log" : fmt::format("rank{}.log", rank);
    row.text = std::move(text);
    source.accept(row);
    return row.timestamp_ns;
  }
  void raise(int32_t rank, std::string type, int file_line = 42, std::string label = {}) {
    const int64_t time_ns =
        say(rank, LogKind::kException,
            (label.empty() ? fmt::format("[rank{}]: ", rank) : label) + std::string(kTracebackHeader), rank + 1);
    source.accept(Stack{100 + rank, fmt::format("step (/home/u/train.py:{})\nmain (/home/u/train.py:90)", file_line)});
    PythonException row{
        .node_id = 1, .timestamp_ns = time_ns, .pid = rank + 1, .tid = rank + 1, .type = std::move(type)};
    row.stack_id = 100 + rank;
    row.depth = 2;
    source.accept(row);
  }
  void fail(int32_t rank) {
    say(rank, LogKind::kException, fmt::format("[rank{}]: torch.distributed.DistBackendError: NCCL error", rank),
        rank + 1);
  }
  /// `clock`: "10:00:00.5"
  void time_out(int32_t rank, int64_t number, std::string_view clock) {
    const std::string prefix = fmt::format("[rank{}]:[E1004 {} ProcessGroupNCCL.cpp:632] ", rank, clock);
    say(rank, LogKind::kTimeout,
        prefix + fmt::format("[PG ID 0 PG GUID 0(default_pg) Rank {}]  failure detected by watchdog at work sequence "
                             "id: {} PG status: last enqueued work: {}, last completed work: {}",
                             rank, number, number, number - 1),
        0);
  }
  Report explained() {
    const auto result = explain(source);
    EXPECT_TRUE(result);
    return result ? result->report : Report();
  }
  Finding only() {
    const Report report = explained();
    EXPECT_EQ(report.findings.size(), 1U);
    return report.findings.size() == 1 ? report.findings[0] : Finding();
  }
};

TEST(Raised, TheRankWhoseExceptionCameBeforeTheTimeoutsOfOthers) {
  RaisedOutput output;
  output.raise(1, "ValueError");
  output.time_out(0, 244, "10:00:00.5");
  output.time_out(2, 244, "10:00:00.6");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kDeadRank);
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_EQ(finding.culprit->rank, 1);
  EXPECT_EQ(finding.culprit->pid, 0);  // the log names none
  EXPECT_GE(finding.confidence, 0.8);
  expect_golden_text("raised: before timeouts", finding);
}

TEST(Raised, AnExceptionAfterAFailureBlamesNoRank) {
  RaisedOutput output;
  output.time_out(0, 244, "10:00:00.5");
  output.raise(1, "ValueError");
  const Report report = output.explained();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  EXPECT_FALSE(report.findings[0].culprit);
}

TEST(Raised, WhatARankRaisesAfterItsOwnFailureIsNoCause) {
  RaisedOutput output;
  output.time_out(1, 244, "10:00:00.5");
  output.raise(1, "RuntimeError");
  for (const Finding& finding : output.explained().findings) {
    EXPECT_NE(finding.cause, Cause::kDeadRank) << finding.summary;
  }
}

/// In one file rank 0 raised before rank 1, by the times of their lines rank 1 before 2 and 2 before 0.
TEST(Raised, TimesThatContradictLinesNameNoRank) {
  RaisedOutput output;
  const auto label = [](int32_t rank, std::string_view clock) {
    return fmt::format("[rank{}]:[E1004 {} a.cpp:1] ", rank, clock);
  };
  output.raise(0, "ValueError", 42, label(0, "10:10:00.0"));
  output.raise(1, "ValueError", 42, label(1, "10:00:00.0"));
  output.one_file = false;
  output.raise(2, "ValueError", 42, label(2, "10:05:00.0"));
  for (const Finding& finding : output.explained().findings) {
    EXPECT_FALSE(finding.culprit) << finding.summary;
  }
}

TEST(Raised, OwnFilesAndDownloadsAreNoFailedCommunication) {
  EXPECT_FALSE(is_failed_communication("BrokenPipeError: [Errno 32] Broken pipe"));
  EXPECT_FALSE(is_failed_communication("requests.exceptions.ConnectionError: 'Connection reset by peer'"));
  EXPECT_TRUE(is_failed_communication("RuntimeError: [../third_party/gloo/gloo/a.cc:1] Connection reset by peer"));
  EXPECT_TRUE(is_failed_communication("torch.distributed.DistBackendError: x"));
}

TEST(Raised, InFilesWithoutTimesTheOrderIsNotKnown) {
  RaisedOutput output(false);
  output.time_out(0, 244, "10:00:00.5");
  output.raise(1, "ValueError");
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kDeadRank);
  EXPECT_EQ(finding.culprit->rank, 1);
  EXPECT_LE(finding.confidence, 0.4);
  expect_golden_text("raised: order not known", finding);
}

TEST(Raised, TimesOrderLinesOfTwoFiles) {
  RaisedOutput before(false);
  before.time_out(0, 244, "10:10:00.5");
  before.raise(1, "ValueError", 42, "2024-10-04T10:00:00Z [rank1]: ");
  EXPECT_EQ(before.only().cause, Cause::kDeadRank);
  EXPECT_GE(before.only().confidence, 0.8);
  RaisedOutput after(false);
  after.time_out(0, 244, "10:10:00.5");
  after.raise(1, "ValueError", 42, "2024-10-04T10:11:00Z [rank1]: ");
  EXPECT_EQ(after.only().cause, Cause::kUnknown);
}

TEST(Raised, ALaterLineOfTheRankSaysUntilWhen) {
  const auto judged = [](std::string_view warned) {
    RaisedOutput output(false);
    output.time_out(0, 244, "10:10:00.5");
    output.raise(1, "ValueError");
    output.say(1, LogKind::kException,
               fmt::format("[rank1]:[W1004 {} ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was "
                           "not called before program exit",
                           warned),
               2);
    return output.only();
  };
  EXPECT_GE(judged("10:00:01.5").confidence, 0.8);
  EXPECT_EQ(judged("10:00:01.5").culprit->rank, 1);
  EXPECT_LE(judged("10:11:00.5").confidence, 0.4);  // it may have been raised before or after
}

TEST(Raised, OneErrorOnAllRanksHasNoCulprit) {
  RaisedOutput output(false);
  for (const int rank : {0, 1, 2}) {
    output.raise(rank, "KeyError");
  }
  const Finding finding = output.only();
  EXPECT_EQ(finding.cause, Cause::kDeadRank);
  EXPECT_FALSE(finding.culprit);
  expect_golden_text("raised: on all ranks", finding);
}

TEST(Raised, OfSeveralInOneFileTheFirst) {
  RaisedOutput output;
  output.raise(2, "KeyError", 7);
  output.raise(0, "ValueError", 8);
  output.fail(1);
  const Finding finding = output.only();
  EXPECT_EQ(finding.culprit->rank, 2);
  expect_golden_text("raised: another followed", finding);
  RaisedOutput apart(false);
  apart.raise(2, "KeyError", 7);
  apart.raise(0, "ValueError", 8);
  EXPECT_FALSE(apart.only().culprit);
  EXPECT_LE(apart.only().confidence, 0.3);
}

TEST(Raised, FailedCommunicationAloneIsNoDeadRank) {
  RaisedOutput output;
  output.fail(0);
  output.fail(1);
  EXPECT_TRUE(output.explained().findings.empty());
}

}  // namespace
}  // namespace stalltrace::analysis
