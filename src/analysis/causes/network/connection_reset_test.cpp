// SPDX-License-Identifier: Apache-2.0
// Connections that broke, and cases that only look similar.
#include <gtest/gtest.h>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/ring_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

TEST(ConnectionReset, TheFirstResetBeforeAnyDeathIsTheCause) {
  for (const bool death_first : {false, true}) {
    MemorySource source;
    Ending ending = short_hang();
    ending.process = [&](int rank, Process& process) {
      if (rank == 1) {
        fail_at(process, kLastArrivalNs + (death_first ? 10 * kNsPerMs : 10 * kNsPerSecond));
      }
    };
    fill(source, ending);
    connect(source);
    source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 30 * kNsPerMs));
    if (death_first) {
      expect_culprit(only(source), Cause::kDeadRank, 1);
    } else {
      expect_link(only(source), Cause::kConnectionReset, 1, 2);
    }
  }
}

/// A rank gets a reset between two calls and closes the connection; it gives up in the next call, as its watchdog says.
TEST(ConnectionReset, MayCloseTheConnectionBeforeTheCallThatHangs) {
  MemorySource source;
  Ending ending = short_hang();
  ending.process = [](int rank, Process& process) {
    if (rank == 1) {
      fail_at(process, kLastArrivalNs + 2 * kNsPerSecond);
    }
  };
  fill(source, ending);
  connect(source, std::nullopt, kLastArrivalNs - 2 * kNsPerMs);
  source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs - 2 * kNsPerMs));
  expect_link(only(source), Cause::kConnectionReset, 1, 2);
}

/// All ranks on one host fail within 8 ms of a reset, without a visible hang. The reset ended them unless the other end
/// had closed before.
TEST(ConnectionReset, MayEndTheJobAtOnce) {
  for (const bool closed_by_peer : {false, true}) {
    MemorySource source;
    Ending ending = short_hang();
    ending.process = [](int rank, Process& process) { fail_at(process, kLastArrivalNs + (32 + rank) * kNsPerMs); };
    fill(source, ending);
    connect(source, closed_by_peer ? std::optional(kLastArrivalNs + 29 * kNsPerMs) : std::nullopt);
    source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 30 * kNsPerMs));
    const Report report = report_of(source);
    if (closed_by_peer) {
      for (const Finding& finding : report.findings) {
        EXPECT_NE(finding.cause, Cause::kConnectionReset) << finding.summary;
      }
      continue;
    }
    ASSERT_EQ(report.findings.size(), 1U) << reported(report);
    expect_link(report.findings[0], Cause::kConnectionReset, 1, 2);
    expect_golden_text("connection_reset that ended the job", report.findings[0]);
  }
}

/// A job that ends at once for an unobserved reason is no finding of another cause.
TEST(ConnectionReset, WithoutOneAnEndAtOnceIsNotReported) {
  MemorySource source;
  Ending ending = short_hang();
  ending.process = [](int, Process& process) { fail_at(process, kLastArrivalNs + 700 * kNsPerMs); };
  fill(source, ending);
  connect(source);
  for (int repeat = 0; repeat < 3; ++repeat) {
    TcpEvent state = event_of(1, TcpEventKind::kCongestionState, kLastArrivalNs + (10 + repeat) * kNsPerMs);
    state.state = repeat % 2 == 0 ? 4 : 0;
    source.accept(state);
  }
  const Report report = report_of(source);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
}

/// A rank's own resets at its close are reported by its peer's end as well; the rank ends 200 ms later.
TEST(ConnectionReset, WhatAFailingRankClosesIsNone) {
  MemorySource source;
  Ending ending = short_hang();
  ending.process = [](int rank, Process& process) {
    if (rank == 2) {
      fail_at(process, kLastArrivalNs + 230 * kNsPerMs);
    }
  };
  fill(source, ending);
  connect(source, kLastArrivalNs + 29 * kNsPerMs);
  TcpEvent sent = event_of(2, TcpEventKind::kResetSent, kLastArrivalNs + 29 * kNsPerMs + 5);
  sent.cookie = kIn;
  source.accept(sent);
  source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 30 * kNsPerMs));
  expect_culprit(only(source), Cause::kDeadRank, 2);
}

/// The job ends before a transfer takes its usual time: a finding without lost time.
TEST(ConnectionReset, MayEndTheJobSoonerThanATransferTakes) {
  MemorySource source;
  Ending ending = short_hang();
  ending.call = [inner = ending.call](int rank, int64_t step, Collective& call) {
    call.duration_ns = 40 * kNsPerMs;
    return inner(rank, step, call);
  };
  ending.process = [](int rank, Process& process) { fail_at(process, kLastArrivalNs + (12 + rank) * kNsPerMs); };
  fill(source, ending);
  connect(source);
  source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 10 * kNsPerMs));
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kConnectionReset) << finding.summary;
  EXPECT_GT(finding.window.to_ns, finding.window.from_ns);
}

/// A refused connection to a display that the library opens at its start: no connection of the job broke.
TEST(ConnectionReset, ARefusedAttemptIsNone) {
  for (const bool refused : {false, true}) {
    MemorySource source;
    fill(source, short_hang());
    connect(source);
    source.accept(event_of(1, TcpEventKind::kResetReceived, kLastArrivalNs + 30 * kNsPerMs));
    if (refused) {
      TcpEvent failed = event_of(1, TcpEventKind::kConnectFailed, kLastArrivalNs + 30 * kNsPerMs);
      failed.state = 111;
      source.accept(failed);
    }
    EXPECT_EQ(only(source).cause, refused ? Cause::kUnknown : Cause::kConnectionReset);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
