// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/events/imported/ras_statement.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kBegin = int64_t{20'000} * 86'400 * kNsPerSecond;
constexpr CommHash kWorld = 0xabc;
constexpr NodeId kFile = 700;

/// Reports of a job of eight ranks on two hosts, all in one file.
struct Reports {
  MemorySource source;
  int64_t time_ns = kBegin;
  int64_t line = 0;
  std::string lacks = "call_durations calls time_zone";

  void begin(int64_t after_ns = 0) {
    time_ns += after_ns;
    add(LogKind::kVersion, "report of NCCL's RAS 2.29.1: 1 communicator");
  }
  void add(const RasStatement& statement) { add(LogKind::kEnd, ras_text(statement)); }

  static RasStatement rank(int32_t number, std::vector<std::pair<std::string, uint64_t>> launched = {}) {
    RasStatement statement{.hash = kWorld, .nranks = 8, .whole_job = true, .rank = number};
    statement.host = fmt::format("10.0.0.{}", number / 4);
    statement.pid = 100 + number;
    statement.gpu = number % 4;
    statement.state = RasState::kRunning;
    statement.launched = std::move(launched);
    return statement;
  }
  /// All eight, each with its number of AllReduces.
  void ranks(const std::function<uint64_t(int32_t)>& count) {
    for (int32_t number = 0; number < 8; ++number) {
      add(rank(number, {{"AllReduce", count(number)}, {"Broadcast", 2}}));
    }
  }

  Report explained() {
    Node node{.node_id = kFile, .name = "ras.json", .started_ns = kBegin, .ended_ns = time_ns};
    node.agent_version = kRasFormat;
    node.missing_evidence = lacks;
    source.accept(node);
    const auto result = explain(source);
    EXPECT_TRUE(result);
    return result ? result->report : Report();
  }

 private:
  void add(LogKind kind, std::string text) {
    LogLine row{.node_id = kFile, .timestamp_ns = time_ns, .kind = kind, .line = ++line};
    row.text = std::move(text);
    source.accept(std::move(row));
  }
};

uint64_t rank_5_behind(int32_t rank) { return rank == 5 ? 6649 : 6650; }

void expect_nothing(const Report& report) {
  EXPECT_TRUE(report.findings.empty()) << report.findings[0].summary;
  EXPECT_EQ(report.health(), std::nullopt);
  golden::expect_text(fmt::format("{}", fmt::join(report.notes, "\n")));
}

Finding only(const Report& report) {
  EXPECT_EQ(report.findings.size(), 1U) << testing::PrintToString(report.notes);
  Finding finding = report.findings.empty() ? Finding() : report.findings[0];
  if (!finding.culprit) {
    finding.culprit.emplace();
  }
  return finding;
}

TEST(Launches, EqualNumbersAreNoFinding) {
  Reports reports;
  reports.begin();
  reports.ranks([](int32_t) { return 6650; });
  const Report report = reports.explained();
  expect_nothing(report);
  EXPECT_EQ(report.nodes, 2);
}

TEST(Launches, ARankBehindInOneReport) {
  Reports reports;
  reports.begin();
  reports.ranks(rank_5_behind);
  const Report report = reports.explained();
  const Finding finding = only(report);
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.severity, Severity::kWaiting);
  EXPECT_DOUBLE_EQ(finding.confidence, 0.4);
  EXPECT_EQ(finding.culprit->rank, 5);
  EXPECT_EQ(finding.culprit->pid, 105);
  EXPECT_EQ(finding.culprit->node, "10.0.0.1");
  EXPECT_EQ(finding.comm_id_hash, kWorld);
  expect_golden_text("launches: one report", finding);
}

TEST(Launches, NothingChangesBetweenTwoReports) {
  Reports reports;
  reports.begin();
  reports.ranks(rank_5_behind);
  reports.begin(60 * kNsPerSecond);
  reports.ranks(rank_5_behind);
  const Report report = reports.explained();
  const Finding finding = only(report);
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_DOUBLE_EQ(finding.confidence, 0.6);
  EXPECT_EQ(finding.culprit->rank, 5);
  EXPECT_DOUBLE_EQ(finding.stall_ms, 60'000);
  expect_golden_text("launches: two reports", finding);

  Reports untimed;  // text has no times
  untimed.lacks += " clock_times";
  untimed.begin();
  untimed.ranks(rank_5_behind);
  untimed.begin(60 * kNsPerSecond);
  untimed.ranks(rank_5_behind);
  EXPECT_EQ(only(untimed.explained()).severity, Severity::kWaiting);
}

TEST(Launches, AJobThatRuns) {
  Reports reports;
  reports.begin();
  reports.ranks(rank_5_behind);
  reports.begin(kNsPerSecond);
  reports.ranks([](int32_t rank) { return 20 + rank_5_behind(rank); });
  expect_nothing(reports.explained());
  reports.begin(kNsPerSecond);
  reports.ranks([](int32_t) { return 7000; });
  expect_nothing(reports.explained());
}

/// The user guide's example of a job in order: 6 of 32 ranks one call behind.
TEST(Launches, SeveralBehindInOneReportProveNothing) {
  Reports reports;
  reports.begin();
  reports.ranks([](int32_t rank) { return rank < 2 ? 6649 : 6650; });
  expect_nothing(reports.explained());
  reports.begin(40 * kNsPerSecond);
  reports.ranks([](int32_t rank) { return rank < 2 ? 6649 : 6650; });
  const Finding finding = only(reports.explained());
  EXPECT_EQ(finding.culprit->node, "10.0.0.0");
  EXPECT_EQ(finding.culprit->rank, std::nullopt);
}

/// Of a report in text the majority is a number.
TEST(Launches, RanksThatAreNotNamed) {
  Reports reports;
  reports.begin();
  RasStatement others{.hash = kWorld, .nranks = 8, .whole_job = true, .members = 7};
  others.launched = {{"AllReduce", 6650}};
  reports.add(others);
  reports.add(Reports::rank(5, {{"AllReduce", 6649}}));
  EXPECT_EQ(only(reports.explained()).culprit->rank, 5);

  Reports behind;
  behind.begin();
  others.members = 3;
  others.launched = {{"AllReduce", 6649}};
  behind.add(others);
  others.members = 5;
  others.launched = {{"AllReduce", 6650}};
  behind.add(others);
  expect_nothing(behind.explained());

  Reports ahead;  // the smaller side is named: the others are all but these
  ahead.begin();
  others.members = 6;
  others.launched = {{"AllReduce", 6649}};
  ahead.add(others);
  for (const int32_t rank : {4, 5}) {
    ahead.add(Reports::rank(rank, {{"AllReduce", 6650}}));
  }
  expect_nothing(ahead.explained());
}

TEST(Launches, OneRankCallsMoreThanTheOthers) {
  Reports reports;
  for (int i = 0; i < 2; ++i) {
    reports.begin(40 * kNsPerSecond);
    reports.ranks([](int32_t rank) { return rank == 0 ? 6650 : 6649; });
  }
  const Finding finding = only(reports.explained());
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 0);
  expect_golden_text("launches: one more", finding);
}

TEST(Launches, DifferentOperations) {
  Reports reports;
  reports.begin();
  for (int32_t number = 0; number < 8; ++number) {
    reports.add(Reports::rank(number, {{"AllReduce", number == 3 ? 9 : 10}, {"Broadcast", number == 3 ? 3 : 2}}));
  }
  const Finding finding = only(reports.explained());
  EXPECT_EQ(finding.cause, Cause::kMismatchedCollective);
  EXPECT_EQ(finding.culprit->rank, 3);
  expect_golden_text("launches: other operations", finding);
}

/// Adds a communicator of ranks 6 and 7.
void add_pair(Reports& reports) {
  for (const int32_t number : {6, 7}) {
    RasStatement statement = Reports::rank(number, {{"AllGather", number == 6 ? 51 : 50}});
    statement.hash = 0xdef;
    statement.nranks = 2;
    statement.whole_job = false;
    statement.rank = number - 6;
    reports.add(statement);
  }
}

/// Rank 6 is behind on the whole job's communicator since it waits on another one, for rank 7.
TEST(Launches, ARankThatWaitsElsewhereIsNotToBlame) {
  Reports reports;
  reports.begin();
  reports.ranks([](int32_t rank) { return rank >= 6 ? 99 : 100; });
  add_pair(reports);
  const Finding finding = only(reports.explained());
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 7);
  EXPECT_EQ(finding.collectives_affected, 2);
}

TEST(Launches, TwoCommunicatorsInDifferentOrder) {
  Reports reports;
  reports.begin();
  reports.ranks([](int32_t rank) { return rank == 6 ? 99 : 100; });
  add_pair(reports);
  const Finding finding = only(reports.explained());
  EXPECT_EQ(finding.cause, Cause::kMismatchedCollective);
  EXPECT_EQ(finding.severity, Severity::kWaiting);
  EXPECT_FALSE(finding.culprit->rank);
  expect_golden_text("launches: crossed", finding);
}

TEST(Launches, ACommunicatorThatIsTakenDown) {
  Reports reports;
  reports.begin();
  reports.ranks(rank_5_behind);
  RasStatement leaving{.hash = kWorld, .nranks = 8, .members = 0};
  leaving.state = RasState::kFinalize;
  reports.add(leaving);
  expect_nothing(reports.explained());
}

TEST(Launches, AProcessThatIsDead) {
  Reports reports;
  reports.begin();
  reports.ranks([](int32_t) { return 100; });
  RasStatement gone = Reports::rank(5);
  gone.state = RasState::kDead;
  reports.add(gone);
  const Finding finding = only(reports.explained());
  EXPECT_EQ(finding.cause, Cause::kDeadRank);
  EXPECT_EQ(finding.severity, Severity::kCritical);
  EXPECT_EQ(finding.culprit->rank, 5);
  expect_golden_text("launches: dead", finding);

  Reports text;  // the process, and the rank that its communicator misses
  text.begin();
  RasStatement process{.host = "10.0.0.1", .pid = 105, .gpu = 1, .state = RasState::kDead};
  text.add(process);
  gone.state = RasState::kUnresponsive;
  text.add(gone);
  EXPECT_EQ(only(text.explained()).culprit->rank, 5);

  Reports old;  // NCCL 2.24: without the process of the rank
  old.begin();
  old.add(process);
  RasStatement missing{.hash = kWorld, .nranks = 8, .whole_job = true, .rank = 5, .state = RasState::kUnresponsive};
  old.add(missing);
  EXPECT_EQ(only(old.explained()).culprit->rank, 5);
}

TEST(Launches, AProcessThatNoRankMisses) {
  Reports reports;
  reports.begin();
  reports.add({.host = "10.0.0.1", .pid = 105, .state = RasState::kDead});
  expect_nothing(reports.explained());
}

TEST(Launches, AProcessThatDoesNotAnswer) {
  Reports reports;
  reports.begin();
  RasStatement gone = Reports::rank(5);
  gone.state = RasState::kUnresponsive;
  reports.add(gone);
  Finding finding = only(reports.explained());
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_EQ(finding.severity, Severity::kWaiting);
  EXPECT_EQ(finding.culprit->rank, 5);
  expect_golden_text("launches: no answer", finding);
  reports.begin(kNsPerSecond);
  reports.add(gone);
  EXPECT_EQ(only(reports.explained()).severity, Severity::kHigh);
}

TEST(Launches, ErrorsOfRanks) {
  Reports reports;
  reports.begin();
  RasStatement failed = Reports::rank(2);
  failed.async_error = 1;
  reports.add(failed);
  RasStatement other = Reports::rank(3);
  other.async_error = 6;
  reports.add(other);
  const Finding finding = only(reports.explained());
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_EQ(finding.culprit->rank, 2);
  expect_golden_text("launches: error", finding);

  Reports set_up;
  set_up.begin();
  failed.async_error = 0;
  failed.init_error = 2;
  set_up.add(failed);
  EXPECT_EQ(only(set_up.explained()).cause, Cause::kInitFailure);
}

/// A report in text groups ranks with one error, and does not name them.
TEST(Launches, ErrorsOfRanksThatAreNotNamed) {
  Reports reports;
  reports.begin();
  RasStatement failed{.hash = kWorld, .nranks = 8, .whole_job = true, .members = 3};
  failed.async_error = 2;
  reports.add(failed);
  const Finding finding = only(reports.explained());
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_EQ(finding.culprit->rank, std::nullopt);
  EXPECT_TRUE(finding.culprit->node.empty());
  expect_golden_text("launches: errors without ranks", finding);
}

/// Of NCCL 2.24's reports no process is known.
TEST(Launches, ErrorsOfSeveralRanksBlameNone) {
  Reports reports;
  reports.begin();
  for (const int32_t rank : {3, 4}) {
    RasStatement failed{.hash = kWorld, .nranks = 8, .whole_job = true, .rank = rank};
    failed.init_error = 2;
    reports.add(failed);
  }
  const Finding finding = only(reports.explained());
  EXPECT_EQ(finding.cause, Cause::kInitFailure);
  EXPECT_EQ(finding.culprit->rank, std::nullopt) << finding.summary;
}

TEST(Launches, AnErrorIsNoEvidenceOnAnotherRank) {
  Reports reports;
  reports.begin();
  reports.ranks(rank_5_behind);
  RasStatement failed = Reports::rank(2);
  failed.async_error = 1;
  reports.add(failed);
  const Report report = reports.explained();
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  EXPECT_EQ(report.findings[0].culprit->rank, 2);
  EXPECT_EQ(report.findings[1].culprit->rank, 5);
  EXPECT_THAT(report.findings[1].evidence,
              testing::Not(testing::Contains(testing::Field(&Evidence::text, testing::HasSubstr("CUDA")))));
}

TEST(Launches, ProcessesOfAHostAreGoneInTwoReportsOnlyIfAllAre) {
  Reports reports;
  const auto gone = [&](int32_t rank) {
    RasStatement statement = Reports::rank(rank);
    statement.state = RasState::kUnresponsive;
    reports.add(statement);
  };
  reports.begin();
  gone(4);
  reports.begin(kNsPerSecond);
  gone(4);
  gone(5);
  EXPECT_EQ(only(reports.explained()).severity, Severity::kWaiting);
}

TEST(Launches, OperationsAreNccls) {
  const auto operation = [](const std::string& name) {
    Reports reports;
    reports.begin();
    for (int32_t number = 0; number < 8; ++number) {
      reports.add(Reports::rank(number, {{name, number == 5 ? 9 : 10}}));
    }
    return only(reports.explained()).op;
  };
  EXPECT_EQ(operation("AlltoAll"), Operation::kAllToAll);
  EXPECT_EQ(operation("Gather"), Operation::kGather);
  EXPECT_EQ(operation("Collective"), Operation::kGroup) << "all operations together: none is known";
}

}  // namespace
}  // namespace stalltrace::analysis
