// SPDX-License-Identifier: Apache-2.0
// The report on a hang without a known cause.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

/// All ranks are in the last call, which does not end; each has sent `moving` bytes per second since then.
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

TEST(Unknown, WhereAllRanksAreInsideItIsSeenWhetherDataMove) {
  const Finding finding = hang_with_traffic(0);
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_EQ(evidence_of(finding, "tcp_sample").count, kRanks) << "connections on which nothing moves";
  expect_golden_text("unknown: no data move", finding);
  EXPECT_EQ(count_of_kind(hang_with_traffic(5'000), "tcp_sample"), 0);
}

/// The last call, which does not end: how far the ranks are known to have come in it.
enum class Come : uint8_t { kNotAll, kInside, kLaunched, kOnDevice };

/// The ranks that were recorded wait; the other one may still come. Where all have launched the call, their devices may
/// have other work to do first.
TEST(Unknown, WhatMayStillEndIsNoHang) {
  for (const Come come : {Come::kNotAll, Come::kInside, Come::kLaunched, Come::kOnDevice}) {
    MemorySource source;
    Ending ending = short_hang();
    const auto call = ending.call;
    ending.call = [=](int rank, int64_t step, Collective& row) {
      if (come >= Come::kLaunched) {
        row.launch_ns = 20 * kNsPerUs;
      }
      if (come == Come::kOnDevice && step == kSteps - 1) {
        row.kernel_start_ns = row.timestamp_ns + 30 * kNsPerUs;
      }
      return (!call || call(rank, step, row)) && (come != Come::kNotAll || rank != 3);
    };
    fill(source, ending);
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, Cause::kUnknown);
    const bool may_end = come == Come::kNotAll || come == Come::kLaunched;
    EXPECT_EQ(finding.severity, may_end ? Severity::kWaiting : Severity::kCritical) << finding.summary;
    EXPECT_EQ(finding.summary.find("hung") == std::string::npos, may_end) << finding.summary;
    golden::expect_text(finding.summary);
  }
}

/// All ranks are inside the last call for `seconds`, and what they send is acknowledged.
Severity severity_while_data_move(int64_t seconds) {
  MemorySource source;
  Ending ending = hang();
  ending.node = [=](int, Node& node) { node.ended_ns = kLastArrivalNs + seconds * kNsPerSecond; };
  fill(source, ending);
  connect(source);
  for (int64_t second = -1; second < seconds; ++second) {
    for (int rank = 0; rank < kRanks; ++rank) {
      TcpSample sample = sample_of(rank, kOut, kLastArrivalNs + second * kNsPerSecond);
      sample.bytes_acked += 5'000 * static_cast<uint64_t>(second + 1);
      source.accept(sample);
    }
  }
  return only(source).severity;
}

TEST(Unknown, WhileDataMoveNothingIsProvenForMinutes) {
  EXPECT_EQ(severity_while_data_move(20), Severity::kWaiting);
  EXPECT_EQ(severity_while_data_move(590), Severity::kWaiting);
  EXPECT_EQ(severity_while_data_move(610), Severity::kCritical);
}

/// Transfers are slow, with every kind of evidence but none that explains it; rank 3 was recorded or not.
TEST(Unknown, RanksThatWereNotRecordedAreNamedAsTheEvidenceThatIsMissing) {
  for (const bool recorded : {true, false}) {
    MemorySource source;
    Ending ending = slow();
    const auto call = ending.call;
    ending.call = [=](int rank, int64_t step, Collective& row) {
      return call(rank, step, row) && (recorded || rank != 3);
    };
    fill(source, ending);
    connect(source);
    for (int64_t step = kSlowFrom; step < kSteps; ++step) {
      source.accept(event_of(0, TcpEventKind::kRetransmit, begin_of(step)));
      source.accept(sample_of(0, kOut, begin_of(step)));
      source.accept(starved(begin_of(step), kNsPerMs, 0, ""));
    }
    const Finding finding = only(source);
    EXPECT_EQ(finding.cause, Cause::kUnknown);
    EXPECT_EQ(count_of_kind(finding, "missing"), recorded ? 0 : 1) << "the ranks";
    expect_golden_text(recorded ? "unknown: all evidence" : "unknown: a rank was not recorded", finding);
  }
}

/// Step `slow` takes all ranks `longer_ns` longer, and nothing shows why.
Report report_of_slow_step(int64_t slow, int64_t longer_ns) {
  Ending ending;
  ending.call = [=](int, int64_t step, Collective& call) {
    if (step == slow) {
      *call.duration_ns += longer_ns;
    } else if (step > slow) {
      call.timestamp_ns += longer_ns;
    }
    return true;
  };
  return report_of(ending);
}

TEST(Unknown, AFirstCollectiveThatConnectsForSecondsIsNotReported) {
  EXPECT_TRUE(report_of_slow_step(0, 6 * kNsPerSecond).findings.empty());
  for (const Report& report : {report_of_slow_step(0, 12 * kNsPerSecond), report_of_slow_step(40, 6 * kNsPerSecond)}) {
    ASSERT_EQ(report.findings.size(), 1U) << reported(report);
    EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
  }
}

TEST(Unknown, ALaterStallIsReportedWithoutTheFirst) {
  Ending ending;
  ending.call = [](int, int64_t step, Collective& call) {
    *call.duration_ns += step == 0 ? 6 * kNsPerSecond : step == 40 ? 3 * kNsPerSecond : 0;
    call.timestamp_ns += (step > 0 ? 6 * kNsPerSecond : 0) + (step > 40 ? 3 * kNsPerSecond : 0);
    return true;
  };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_NEAR(report.findings[0].stall_ms, 3000, 100);
}

TEST(Unknown, AFirstCollectiveThatNeverEndsIsReportedWhenConnectingWouldHaveEnded) {
  const auto report_after = [](int64_t observed_ns) {
    Ending ending;
    ending.call = [](int, int64_t step, Collective& call) {
      leave_open(call);
      return step == 0;
    };
    ending.node = [=](int, Node& node) { node.ended_ns = kOriginNs + observed_ns; };
    return report_of(ending);
  };
  EXPECT_TRUE(report_after(7 * kNsPerSecond).findings.empty());
  const Report report = report_after(15 * kNsPerSecond);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  EXPECT_EQ(report.findings[0].severity, Severity::kCritical);
}

/// Rank 1 is late for nine seconds in all; then no rank comes out of the last call, for much less, and nothing shows
/// why.
TEST(Unknown, AHangIsNoDetailOfWhatCostMore) {
  constexpr int64_t kLateNs = 150 * kNsPerMs;
  constexpr int64_t kHungNs = 1500 * kNsPerMs;
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    const int64_t slow_steps = std::max<int64_t>(0, step - kSlowFrom + 1);
    call.timestamp_ns += slow_steps * 2 * kLateNs + (slow_steps > 0 && rank == 1 ? kLateNs : 0);
    *call.duration_ns += slow_steps > 0 && rank != 1 ? kLateNs : 0;
    if (step == kSteps - 1) {
      leave_open(call);
    }
    return true;
  };
  const int64_t last_ns = kLastArrivalNs + (kSteps - kSlowFrom) * 2 * kLateNs + kLateNs;
  ending.node = [=](int, Node& node) { node.ended_ns = last_ns + kHungNs; };
  const Report report = report_of(ending);
  SCOPED_TRACE(reported(report));
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].cause, Cause::kLateRank);
  EXPECT_EQ(report.findings[1].cause, Cause::kUnknown);
  EXPECT_EQ(report.findings[1].severity, Severity::kCritical);
}

}  // namespace
}  // namespace stalltrace::analysis
