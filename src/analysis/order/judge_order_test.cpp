// SPDX-License-Identifier: Apache-2.0
// Logs and dumps of healthy and hanging jobs, as rows: who is blamed, how surely, and who is not.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/events/imported_evidence.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;
constexpr int64_t kStepNs = 100 * kNsPerMs;
constexpr CommHash kWorld = 77;

/// A job's evidence, one process per rank; each test changes what differs.
struct LoggedJob {
  int ranks = 4;
  int shown = 0;  // ranks with a log; 0: all
  std::function<int64_t(int)> last = [](int) { return 29; };
  std::function<int64_t(int)> log_ends_ns = nullptr;  // none: with the last call
  std::function<void(Collective&)> change = [](Collective&) {};
  std::function<bool(int)> cut = [](int) { return false; };
  std::function<bool(int)> left = [](int) { return false; };
  bool timed = false;
  bool named = true;
  bool known = true;  // which rank a process is
  std::vector<Collective> more;
  std::vector<LogLine> lines;
  TimeWindow window;

  static NodeId node(int rank) { return static_cast<NodeId>(rank + 1); }
  static int64_t time_ns(int64_t number) { return kOriginNs + number * kStepNs; }

  Collective call(int rank, int64_t number, CommHash hash = kWorld) const {
    Collective row;
    row.event_id = make_event_id(node(rank), static_cast<uint64_t>(number + 1) + (hash == kWorld ? 0 : 1'000'000));
    row.node_id = node(rank);
    row.timestamp_ns = time_ns(number);
    row.completion = Completion::kUnobserved;
    row.seq = number;
    row.rank = known ? std::optional(rank) : std::nullopt;
    row.nranks = ranks;
    row.comm_id_hash = hash;
    row.comm_ptr = hash * 16 + static_cast<uint64_t>(rank);
    row.pid = 100 + rank;
    row.count = 1024;
    row.datatype = 7;
    return row;
  }

  Report explain() const {
    const Result<ExplainResult> result = try_to_explain();
    EXPECT_TRUE(result) << result.error().what;
    return result ? result->report : Report{};
  }

  Result<ExplainResult> try_to_explain() const {
    MemorySource source;
    for (int rank = 0; rank < (shown == 0 ? ranks : shown); ++rank) {
      Node row{.node_id = node(rank), .name = fmt::format("node{}", rank)};
      row.started_ns = kOriginNs;
      row.missing_evidence = std::string(kLacksDurations) + (timed ? "" : " " + std::string(kLacksTimes));
      source.accept(row);
      Process process{.node_id = node(rank), .pid = 100 + rank, .start_ns = kOriginNs};
      process.rank = known ? std::optional(rank) : std::nullopt;
      source.accept(process);
      for (int64_t number = 0; number <= last(rank); ++number) {
        Collective one = call(rank, number);
        change(one);
        source.accept(one);
      }
      Communicator comm{.node_id = node(rank), .pid = 100 + rank, .comm_ptr = call(rank, 0).comm_ptr};
      comm.comm_id_hash = kWorld;
      comm.nccl_comm_hash = named ? kWorld : 0;
      comm.rank = known ? std::optional(rank) : std::nullopt;
      comm.nranks = ranks;
      comm.created_ns = kOriginNs;
      if (left(rank)) {
        comm.destroyed_ns = time_ns(last(rank));
      }
      source.accept(comm);
      source.accept(LogLine{.node_id = node(rank),
                            .timestamp_ns = log_ends_ns ? log_ends_ns(rank) : time_ns(last(rank)),
                            .pid = 100 + rank,
                            .rank = rank,
                            .kind = cut(rank) ? LogKind::kCut : LogKind::kEnd});
    }
    for (const Collective& row : more) {
      source.accept(row);
    }
    for (const LogLine& row : lines) {
      source.accept(row);
    }
    return stalltrace::explain(source, {.window = window});
  }
};

LogLine timeout_of(int rank, int64_t time_ns,
                   std::string text = "Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, x)") {
  return {.node_id = LoggedJob::node(0),
          .timestamp_ns = time_ns,
          .rank = rank,
          .kind = LogKind::kTimeout,
          .text = std::move(text)};
}

int64_t rank_3_behind(int rank) { return rank == 3 ? 28 : 29; }

void expect_nothing(const Report& report) {
  EXPECT_TRUE(report.findings.empty()) << report.findings[0].summary;
  EXPECT_EQ(report.health(), std::nullopt);
  golden::expect_text(fmt::format("{}", fmt::join(report.notes, "\n")));
}

const Finding& only(const Report& report) {
  static const Finding kNone;
  EXPECT_EQ(report.findings.size(), 1U);
  return report.findings.size() == 1 ? report.findings[0] : kNone;
}

void expect_missing(const Report& report, std::optional<int32_t> rank, Severity severity, double confidence) {
  const Finding& finding = only(report);
  EXPECT_EQ(finding.cause, Cause::kMissingCollective) << finding.summary;
  EXPECT_EQ(finding.culprit.has_value(), rank.has_value());
  EXPECT_EQ(finding.culprit.value_or(Culprit{}).rank, rank);
  EXPECT_EQ(finding.severity, severity) << finding.summary;
  EXPECT_DOUBLE_EQ(finding.confidence, confidence) << finding.summary;
}

TEST(CallOrder, LogsWhoseRanksAreNotKnownAreNotMissing) {
  LoggedJob job{.ranks = 8, .shown = 3};
  job.known = false;
  expect_nothing(job.explain());
}

TEST(CallOrder, NoRankIsBehind) {
  expect_nothing(LoggedJob{}.explain());
  expect_nothing(LoggedJob{.left = [](int) { return true; }}.explain());
}

TEST(CallOrder, OneRankBehindInLogsWithoutTimesMayBeMissing) {
  expect_missing(LoggedJob{.last = rank_3_behind}.explain(), 3, Severity::kWaiting, 0.4);
}

TEST(CallOrder, TwoLogsOfManyRanks) {
  const LoggedJob job{.ranks = 8, .shown = 2, .last = [](int rank) { return rank == 1 ? 28 : 29; }, .named = false};
  expect_missing(job.explain(), 1, Severity::kWaiting, 0.3);
  expect_nothing(LoggedJob{.ranks = 8, .shown = 2}.explain());
}

TEST(CallOrder, LogsThatWereCutWhileTheJobRan) {
  // Each log ends elsewhere.
  expect_nothing(LoggedJob{.last = [](int rank) { return 29 + rank; }}.explain());
  // One log ends far behind.
  expect_nothing(LoggedJob{.last = [](int rank) { return rank == 3 ? 20 : 29; }}.explain());
  expect_nothing(LoggedJob{.last = [](int rank) { return rank == 3 ? 20 : 2000; }}.explain());
  // Its last line is incomplete, or that of another.
  expect_nothing(LoggedJob{.last = rank_3_behind, .cut = [](int rank) { return rank == 3; }}.explain());
  expect_nothing(LoggedJob{.last = rank_3_behind, .cut = [](int rank) { return rank == 1; }}.explain());
  // The others ended in good order.
  expect_nothing(LoggedJob{.last = rank_3_behind, .left = [](int rank) { return rank != 3; }}.explain());
  // Half of them are behind.
  expect_nothing(LoggedJob{.last = [](int rank) { return rank < 2 ? 28 : 29; }}.explain());
  // One is ahead.
  expect_nothing(LoggedJob{.last = [](int rank) { return rank == 0 ? 29 : 28; }}.explain());
}

TEST(CallOrder, TimesThatDifferOnlyByBuffering) {
  // Rank 3's log ends one to four steps before the others'.
  for (int64_t behind = 1; behind <= 4; ++behind) {
    LoggedJob job{.last = [=](int rank) { return rank == 3 ? 29 - behind : 29; }, .timed = true};
    expect_nothing(job.explain());
    // It goes on for less than a second.
    job.log_ends_ns = [=](int rank) {
      return rank == 3 ? LoggedJob::time_ns(29 - behind) + 900 * kNsPerMs : LoggedJob::time_ns(29);
    };
    expect_nothing(job.explain());
  }
}

TEST(CallOrder, ClocksOfHostsMayDiffer) {
  for (const int64_t skew_ns : {-3600 * kNsPerSecond, 3600 * kNsPerSecond}) {
    LoggedJob job{.last = rank_3_behind, .timed = true};
    job.change = [=](Collective& row) { row.timestamp_ns += row.rank == 3 ? skew_ns : 0; };
    job.log_ends_ns = [=](int rank) { return LoggedJob::time_ns(rank == 3 ? 28 : 29) + (rank == 3 ? skew_ns : 0); };
    expect_nothing(job.explain());
  }
}

TEST(CallOrder, ARankWhoseLogGoesOnWithoutTheCall) {
  LoggedJob job{.last = rank_3_behind, .timed = true};
  job.log_ends_ns = [](int) { return LoggedJob::time_ns(29) + 5 * kNsPerSecond; };
  expect_missing(job.explain(), 3, Severity::kWaiting, 0.6);  // an evaluation takes as long
  job.log_ends_ns = [](int) { return LoggedJob::time_ns(29) + 60 * kNsPerSecond; };
  expect_missing(job.explain(), 3, Severity::kCritical, 0.6);
  // A job that pauses that long between its steps.
  job.change = [](Collective& row) { row.timestamp_ns = kOriginNs + *row.seq * 30 * kNsPerSecond; };
  job.log_ends_ns = [](int) { return kOriginNs + (29 * 30 + 60) * kNsPerSecond; };
  expect_nothing(job.explain());
}

TEST(CallOrder, AWatchdogProvesTheHang) {
  LoggedJob job{.last = rank_3_behind};
  job.lines = {timeout_of(0, kOriginNs)};
  expect_missing(job.explain(), 3, Severity::kCritical, 0.6);
  // Of another operation.
  job.lines = {timeout_of(0, kOriginNs, "Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, x)")};
  expect_missing(job.explain(), 3, Severity::kWaiting, 0.4);
  // The rank that is behind waits as well: it synchronises after each call, the others do not.
  job.lines = {timeout_of(0, kOriginNs), timeout_of(3, kOriginNs)};
  expect_nothing(job.explain());
  // More are behind than came.
  job.last = [](int rank) { return rank == 0 ? 29 : 28; };
  job.lines = {timeout_of(0, kOriginNs)};
  expect_missing(job.explain(), 0, Severity::kCritical, 0.6);
}

TEST(CallOrder, ARankThatLeft) {
  LoggedJob job{.last = rank_3_behind, .left = [](int rank) { return rank == 3; }};
  expect_missing(job.explain(), 3, Severity::kCritical, 0.9);
}

TEST(CallOrder, ARankThatWaitsElsewhereIsNotBlamed) {
  LoggedJob job{.last = rank_3_behind};
  Collective other = job.call(3, 29, 99);  // on a communicator of which the other members are not shown
  job.more = {other};
  expect_nothing(job.explain());
  other.op = Operation::kRecv;
  other.seq.reset();
  job.more = {other};
  expect_nothing(job.explain());
  // One that all its members have reached: the job's next life in the same process looks like that.
  job.more.clear();
  for (int rank = 2; rank < 4; ++rank) {
    job.more.push_back(job.call(rank, 29, 99));
    job.more.back().nranks = 2;
  }
  job.more[0].timestamp_ns -= kNsPerSecond;
  expect_nothing(job.explain());
}

TEST(CallOrder, AWatchdogCountsOnlyWhereItsRankWaits) {
  LoggedJob job{.last = rank_3_behind};
  const int64_t later_ns = LoggedJob::time_ns(29) + 600 * kNsPerSecond;
  job.lines = {timeout_of(0, later_ns)};
  expect_missing(job.explain(), 3, Severity::kCritical, 0.6);
  for (const LogLine& other :
       {timeout_of(17, later_ns),
        timeout_of(0, later_ns, "Watchdog caught collective operation timeout: WorkNCCL(OpType=RECV, x)"),
        timeout_of(0, later_ns, "Timeout at NCCL work: 30")}) {
    job.lines = {other};
    expect_missing(job.explain(), 3, Severity::kWaiting, 0.4);
  }
}

TEST(CallOrder, ARankWithoutACallLeavesItOpenWhoIsBehind) {
  LoggedJob job{.last = rank_3_behind};
  job.change = [](Collective& row) { row.seq = row.rank == 2 ? std::nullopt : row.seq; };
  EXPECT_TRUE(job.explain().findings.empty());
}

TEST(CallOrder, AClockThatGoesBackIsNoSilence) {
  LoggedJob job{.last = rank_3_behind, .timed = true};
  job.log_ends_ns = [](int) { return LoggedJob::time_ns(29); };
  LogLine early{
      .node_id = LoggedJob::node(3), .timestamp_ns = LoggedJob::time_ns(0) + 86'000 * kNsPerSecond, .pid = 103};
  early.kind = LogKind::kInterface;  // before midnight, by a clock alone
  job.lines = {early};
  EXPECT_TRUE(job.explain().findings.empty());
}

TEST(CallOrder, DifferingCallsUnderOneNumber) {
  LoggedJob job;
  job.change = [](Collective& row) {
    if (row.rank == 2 && *row.seq >= 20) {
      row.op = Operation::kAllGather;
      row.count = 5;
    }
  };
  const Report report = job.explain();
  const Finding& finding = only(report);
  EXPECT_EQ(finding.cause, Cause::kMismatchedCollective);
  EXPECT_EQ(finding.culprit.value_or(Culprit{}).rank, 2);
  EXPECT_NE(finding.summary.find("0x14"), std::string::npos) << finding.summary;
  // Two against two: neither.
  job.change = [](Collective& row) { row.count = *row.rank >= 2 && *row.seq >= 20 ? 5 : 1024; };
  EXPECT_EQ(only(job.explain()).culprit, std::nullopt);
  // From the beginning of what is known, in the middle of a job: the numbers may mean different things.
  job.change = [](Collective& row) {
    row.count = 100 * *row.rank + *row.seq;
    row.seq = *row.seq + 500;
  };
  expect_nothing(job.explain());
}

TEST(CallOrder, TwoProcessesOfOneRankAreNotJudged) {
  LoggedJob job{.last = rank_3_behind};
  job.change = [](Collective& row) { row.rank = row.rank == 3 ? 2 : *row.rank; };
  Collective extra = job.call(2, 0);
  extra.comm_ptr = 5;
  job.more = {extra};
  expect_nothing(job.explain());
}

/// Completed calls and an open one, as in a dump; the file's time is an hour later.
LoggedJob dumps(std::function<int64_t(int)> last, std::function<Completion(const Collective&)> completion) {
  LoggedJob job{.last = std::move(last), .timed = true};
  job.change = [=](Collective& row) {
    row.completion = completion(row);
    if (row.completion == Completion::kSync) {
      row.duration_ns = kNsPerMs;
    }
  };
  job.log_ends_ns = [](int) { return kOriginNs + 3600 * kNsPerSecond; };
  return job;
}

TEST(CallOrder, ADumpShowsWhoIsOutside) {
  const auto open_29 = [](const Collective& row) { return *row.seq == 29 ? Completion::kOpen : Completion::kSync; };
  LoggedJob job = dumps(rank_3_behind, open_29);
  expect_missing(job.explain(), 3, Severity::kWaiting, 0.3);
  job.lines = {timeout_of(0, LoggedJob::time_ns(29) + 600 * kNsPerSecond)};
  expect_missing(job.explain(), 3, Severity::kCritical, 0.8);
}

TEST(CallOrder, DumpsOfDifferentMoments) {
  // Each rank was dumped a step later than the one before; the job runs.
  const auto last = [](int rank) { return int64_t{26 + rank}; };
  const auto open_last = [=](const Collective& row) {
    return *row.seq == last(*row.rank) ? Completion::kOpen : Completion::kSync;
  };
  expect_nothing(dumps(last, open_last).explain());
  // Only the last rank is behind, in a call that the others ended.
  const auto open_own = [](const Collective& row) {
    return *row.seq == rank_3_behind(*row.rank) ? Completion::kOpen : Completion::kSync;
  };
  expect_nothing(dumps(rank_3_behind, open_own).explain());
}

TEST(CallOrder, ATransferThatHangsBlamesNoRank) {
  // All are in call 28; those that do not wait for it have launched 29.
  const auto open_28 = [](const Collective& row) { return *row.seq >= 28 ? Completion::kOpen : Completion::kSync; };
  expect_nothing(dumps(rank_3_behind, open_28).explain());
}

TEST(CallOrder, ADumpOfARankThatStandsStillWhileAnotherLaunchesMore) {
  // As on an H200: rank 1 of 2 computes for ever, rank 0 launches 36 calls that can't end.
  const auto last = [](int rank) { return rank == 1 ? int64_t{20} : int64_t{56}; };
  const auto after_20 = [](const Collective& row) { return *row.seq > 20 ? Completion::kOpen : Completion::kSync; };
  LoggedJob job = dumps(last, after_20);
  job.ranks = 2;
  expect_missing(job.explain(), 1, Severity::kWaiting, 0.3);
  expect_golden_text("dumps: many calls ahead", only(job.explain()));
  // One of the later calls ended: all ranks were in it.
  LoggedJob runs =
      dumps(last, [](const Collective& row) { return *row.seq > 21 ? Completion::kOpen : Completion::kSync; });
  runs.ranks = 2;
  expect_nothing(runs.explain());
  // The rank that is behind still waits in its last call.
  LoggedJob inside = dumps(last, [](const Collective& row) {
    return *row.seq > 20 || (row.rank == 1 && *row.seq == 20) ? Completion::kOpen : Completion::kSync;
  });
  inside.ranks = 2;
  expect_nothing(inside.explain());
}

TEST(CallOrder, TheRankWithoutADumpIsNamed) {
  const auto open_29 = [](const Collective& row) { return *row.seq == 29 ? Completion::kOpen : Completion::kSync; };
  LoggedJob job = dumps([](int) { return 29; }, open_29);
  job.shown = 3;
  const Finding finding = only(job.explain());
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_EQ(finding.severity, Severity::kWaiting);
  EXPECT_FALSE(finding.culprit);
  EXPECT_LE(finding.confidence, 0.3);
  expect_golden_text("dumps: one is missing", finding);
  // Half of the dumps is no evidence on the others, nor are calls that end.
  job.shown = 2;
  expect_nothing(job.explain());
  LoggedJob ended = dumps([](int) { return 29; }, [](const Collective&) { return Completion::kSync; });
  ended.shown = 3;
  expect_nothing(ended.explain());
}

TEST(CallOrder, ATimeRangeDoesNotLimitItAndANoteSaysSo) {
  const TimeWindow later{.from = TimePoint{.ns = 10 * kStepNs, .from_start = true}};
  const Report report = LoggedJob{.last = rank_3_behind, .window = later}.explain();
  EXPECT_EQ(only(report).cause, Cause::kMissingCollective);
  const auto note = std::ranges::find_if(
      report.notes, [](const std::string& text) { return text.find("range") != std::string::npos; });
  ASSERT_NE(note, report.notes.end());
  golden::expect_text(*note);
}

TEST(CallOrder, ATimeRangeAfterAllCallsIsAnError) {
  const TimeWindow after{.from = TimePoint{.ns = 100 * kNsPerSecond, .from_start = true}};
  const Result<ExplainResult> result = LoggedJob{.window = after}.try_to_explain();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kNotFound);
  golden::expect_text(result.error().what);
}

}  // namespace
}  // namespace stalltrace::analysis
