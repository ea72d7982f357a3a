// SPDX-License-Identifier: Apache-2.0
// The culprit of a hang: dead, absent, in another call, in a cycle, or in a different call than the others.
#include <gtest/gtest.h>

#include "analysis/stalls/hangs/open_call_graph.h"
#include "analysis/testing/golden_text.h"
#include "analysis/testing/small_job.h"
#include "analysis/thresholds/hangs.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

constexpr int64_t kLast = kSteps - 1;
constexpr CommHash kOther = 99;

/// All ranks stay inside the last call; `rank` entered it differently.
Ending odd_call(int rank, const std::function<void(Collective&)>& change) {
  Ending ending;
  ending.call = [=](int r, int64_t step, Collective& call) {
    call.datatype = 7;
    call.reduce_op = 0;
    call.root = 0;  // as in a Broadcast
    if (step == kLast) {
      leave_open(call);
      if (r == rank) {
        change(call);
      }
    }
    return true;
  };
  return ending;
}

TEST(CallSites, AreReportedOfTheCallsOfAHang) {
  Ending ending = odd_call(1, [](Collective& call) { call.bytes /= 2; });
  const auto call = ending.call;
  ending.call = [call](int rank, int64_t step, Collective& row) {
    row.stack_id = step < kLast ? 7 : rank == 1 ? 9 : 8;
    return call(rank, step, row);
  };
  MemorySource source;
  fill(source, ending);
  source.accept(Stack{7, "ncclAllReduce (libnccl.so.2)\nearlier+0x1 (train)"});
  source.accept(
      Stack{8, "ncclAllReduce (libnccl.so.2)\nstep+0x10 (train)\ntrain+0x20 (train)\nmain+0x30 (train)\n_start"});
  source.accept(Stack{9, "ncclAllReduce (libnccl.so.2)\nevaluate+0x40 (train)"});
  const Report report = report_of(source);
  expect(report, Cause::kMismatchedCollective, 1);
  EXPECT_EQ(count_of_kind(report.findings[0], "stack"), 2) << "one line for each location";
  expect_golden_text("mismatched_collective with call sites", report.findings[0]);
}

TEST(Mismatch, OperationSizeDatatypeReduceOpAndRootAreCompared) {
  const std::function<void(Collective&)> kChanges[] = {
      [](Collective& call) { call.op = Operation::kBroadcast; },
      [](Collective& call) { call.bytes /= 2; },
      [](Collective& call) { call.datatype = 6; },
      [](Collective& call) { call.reduce_op = 2; },
      [](Collective& call) { call.root = 1; },
  };
  for (const auto& change : kChanges) {
    expect(report_of(odd_call(1, change)), Cause::kMismatchedCollective, 1);
  }
  const Report report = report_of(odd_call(3, [](Collective& call) { call.datatype = 6; }));
  expect_golden_text("mismatched_collective", report.findings[0]);
}

TEST(Mismatch, WithoutAMajorityNoRankIsNamed) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kLast) {
      leave_open(call);
      call.bytes /= rank < 2 ? 1 : 2;
    }
    return true;
  };
  expect(report_of(ending), Cause::kMismatchedCollective, std::nullopt);
}

TEST(Mismatch, TheOddRankMayEndItsPartAndGoOn) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kLast - 1 && rank == 1) {
      call.bytes /= 2;
    } else if (step >= kLast - 1) {
      leave_open(call);
    }
    return step < kLast || rank == 1;
  };
  expect(report_of(ending), Cause::kMismatchedCollective, 1);
}

TEST(Mismatch, OneThatAllHaveLeftIsNoCauseOfALaterHang) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == 50 && rank == 1) {
      call.bytes /= 2;
    }
    if (step == kLast) {
      leave_open(call);
    }
    return step < kLast || rank != 2;
  };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 2U) << reported(report);
  EXPECT_EQ(report.findings[0].cause, Cause::kMissingCollective) << reported(report);
  EXPECT_EQ(report.findings[0].culprit->rank, 2);
  EXPECT_EQ(report.findings[1].cause, Cause::kMismatchedCollective) << "its data are wrong all the same";
}

TEST(Mismatch, CountsMayDifferByRankWhereTheLibraryLetsThem) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    call.library = Library::kMpi;
    call.op = Operation::kAllGather;
    call.bytes += rank;
    if (step == kLast) {
      leave_open(call);
    }
    return step < kLast || rank != 2;
  };
  expect(report_of(ending), Cause::kMissingCollective, 2);
}

TEST(Missing, TheRankThatStaysAwayIsNamedWithWhatItDoes) {
  for (const WaitKind kind : {WaitKind::kOnCpu, WaitKind::kBlocked}) {
    MemorySource source;
    Ending ending;
    ending.call = [](int rank, int64_t step, Collective& call) {
      if (step == kLast) {
        leave_open(call);
      }
      return step < kLast || rank != 0;
    };
    if (kind == WaitKind::kOnCpu) {  // it is not reported to hang before
      ending.node = [](int, Node& node) { node.ended_ns = kLastArrivalNs + kUnprovenWaitNs + kNsPerSecond; };
    }
    fill(source, ending);
    WaitSpan span{.node_id = 1, .timestamp_ns = kLastArrivalNs, .window_ns = 200 * kNsPerSecond};
    span.waited_ns = span.window_ns;
    span.kind = kind;
    span.pid = span.tid = 10;
    source.accept(span);
    const Report report = report_of(source);
    expect(report, Cause::kMissingCollective, 0);
    expect_golden_text(kind == WaitKind::kOnCpu ? "missing_collective: computing" : "missing_collective: waiting",
                       report.findings[0]);
  }
}

/// A late arrival, and a rank that never comes.
TEST(Disk, TheRankThatWaitsForItIsNamed) {
  for (const bool comes : {true, false}) {
    MemorySource source;
    Ending ending;
    ending.call = [&](int rank, int64_t step, Collective& call) {
      if (step == kLast) {
        if (comes) {
          call.timestamp_ns += rank == 0 ? 2 * kNsPerSecond : 0;
          call.duration_ns = (rank == 0 ? 0 : 2 * kNsPerSecond) + 5 * kNsPerMs;
        } else {
          leave_open(call);
        }
      }
      return comes || step < kLast || rank != 0;
    };
    fill(source, ending);
    WaitSpan span{.node_id = 1, .timestamp_ns = kLastArrivalNs, .window_ns = (comes ? 2 : 200) * kNsPerSecond};
    span.waited_ns = span.window_ns;
    span.kind = WaitKind::kDisk;
    span.pid = span.tid = 10;
    source.accept(span);
    const Report report = report_of(source);
    ASSERT_EQ(report.findings.size(), 1U) << reported(report);
    EXPECT_EQ(report.findings[0].cause, Cause::kDiskIo) << reported(report);
    EXPECT_EQ(report.findings[0].culprit->rank, 0);
  }
}

TEST(Missing, TheOneThatEntersAloneIsOdd) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kLast) {
      leave_open(call);
    }
    return step < kLast || rank == 0;
  };
  const Report report = report_of(ending);
  expect(report, Cause::kMissingCollective, 0);
  expect_golden_text("missing_collective of one that came alone", report.findings[0]);
}

TEST(Missing, ARankThatIsUsuallySoLateMayStillCome) {
  Ending ending;
  const auto scale = [](int rank, Collective& call) {
    const int64_t step = *call.seq;
    call.timestamp_ns = kOriginNs + step * 20 * kNsPerSecond + (rank == 2 ? 8 * kNsPerSecond : 0);
    call.duration_ns = (rank == 2 ? 0 : 8 * kNsPerSecond) + 5 * kNsPerMs;
  };
  for (const bool soon : {true, false}) {
    ending.call = [&](int rank, int64_t step, Collective& call) {
      scale(rank, call);
      if (step == kLast) {
        leave_open(call);
      }
      return step < kLast || rank != 2;
    };
    ending.node = [&](int, Node& node) { node.ended_ns = kOriginNs + (kLast * 20 + (soon ? 7 : 60)) * kNsPerSecond; };
    const Report report = report_of(ending);
    const bool missing = std::any_of(report.findings.begin(), report.findings.end(),
                                     [](const Finding& finding) { return finding.cause == Cause::kMissingCollective; });
    EXPECT_EQ(missing, !soon) << reported(report);
  }
}

TEST(Missing, ARankThatNeverCalledAnythingOnACommunicatorIsKnownByIt) {
  MemorySource source;
  fill(source, {});
  for (int rank = 0; rank < kRanks; ++rank) {
    Communicator row{.node_id = static_cast<NodeId>(1 + rank), .pid = 10 + rank, .comm_ptr = kOther};
    row.comm_id_hash = kOther;
    row.rank = rank;
    row.nranks = kRanks;
    source.accept(row);
    Collective call = call_of(rank, 0, kOther);
    call.timestamp_ns = kLastArrivalNs + kNsPerSecond;
    leave_open(call);
    if (rank != 3) {
      source.accept(call);
    }
  }
  expect(report_of(source), Cause::kMissingCollective, 3);
}

/// The world's AllReduce without rank 1, which waits for rank 0 in a call of two.
TEST(Cycle, OverTwoCommunicatorsNamesTheOddRankAndBothCalls) {
  MemorySource source;
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kLast) {
      leave_open(call);
    }
    return step < kLast || rank != 1;
  };
  ending.node = [](int, Node& node) { node.ended_ns = kLastArrivalNs + 5 * kNsPerSecond; };
  fill(source, ending);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const int rank : {0, 1}) {
      Collective call = call_of(rank, step, kOther);
      call.timestamp_ns += 10 * kNsPerMs;
      call.nranks = 2;
      call.op = Operation::kAllGather;
      if (step == kLast) {
        leave_open(call);
      }
      if (step < kLast || rank == 1) {
        source.accept(call);
      }
    }
  }
  const Report report = report_of(source);
  expect(report, Cause::kMissingCollective, 1);
  EXPECT_EQ(report.findings[0].severity, Severity::kCritical) << "a deadlock does not end";
  expect_golden_text("missing_collective in a cycle of two communicators", report.findings[0]);
}

/// All ranks have launched both calls: rank 2 the pair's before the whole job's, the others in reverse order.
TEST(Cycle, CallsLaunchedInAnotherOrderNameTheRankThatDiffers) {
  MemorySource source;
  Ending ending;
  ending.call = [](int, int64_t step, Collective& call) {
    if (step == kLast) {
      leave_open(call);
    }
    return true;
  };
  fill(source, ending);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const int rank : {0, 2}) {
      Collective call = call_of(rank, step, kOther);
      call.timestamp_ns += (step == kLast && rank == 2 ? -2 : 2) * kNsPerMs;
      call.nranks = 2;
      call.duration_ns = kNsPerMs;
      if (step == kLast) {
        leave_open(call);
      }
      source.accept(call);
    }
  }
  const Report report = report_of(source);
  expect(report, Cause::kMissingCollective, 2);
  expect_golden_text("missing_collective in a cycle by order", report.findings[0]);
}

Collective transfer(int rank, int peer, bool receives, int64_t arrival_ns, uint64_t number) {
  Collective call = call_of(rank, 0);
  call.event_id = make_event_id(call.node_id, 2'000'000 + number);
  call.op = receives ? Operation::kRecv : Operation::kSend;
  call.peer = peer;
  call.seq = 0;
  call.timestamp_ns = arrival_ns;
  leave_open(call);
  return call;
}

void add_communicators(MemorySource& source) {
  for (int rank = 0; rank < kRanks; ++rank) {
    Communicator row{.node_id = static_cast<NodeId>(1 + rank), .pid = 10 + rank, .comm_ptr = kHash};
    row.comm_id_hash = kHash;
    row.rank = rank;
    row.nranks = kRanks;
    source.accept(row);
  }
}

TEST(Cycle, BothSidesSendFirst) {
  MemorySource source;
  fill(source, {});
  add_communicators(source);
  source.accept(transfer(0, 1, false, kLastArrivalNs + kNsPerSecond, 1));
  source.accept(transfer(1, 0, false, kLastArrivalNs + kNsPerSecond, 1));
  const Report report = report_of(source);
  expect(report, Cause::kMissingCollective, std::nullopt);
  expect_golden_text("missing_collective in a cycle of sends", report.findings[0]);
}

TEST(Chain, APipelineNamesItsStart) {
  MemorySource source;
  fill(source, {});
  add_communicators(source);
  for (int rank = 1; rank < kRanks; ++rank) {  // each waits for the previous stage; the first one computes
    source.accept(transfer(rank, rank - 1, true, kLastArrivalNs + kNsPerSecond, 1));
  }
  const Report report = report_of(source);
  expect(report, Cause::kMissingCollective, 0);
}

TEST(Dead, TheFirstDeathWinsThroughAChainAndAnAbort) {
  MemorySource source;
  Ending ending;
  ending.call = [](int, int64_t step, Collective& call) {
    if (step == kLast) {
      leave_open(call);
    }
    return true;
  };
  ending.process = [](int rank, Process& process) {
    if (rank == 2) {
      exit_at(process, kLastArrivalNs + kNsPerMs);
      process.exit_signal = 11;
    } else {
      process.exit_ns = kLastArrivalNs + (11 + rank) * kNsPerSecond;
      process.exit_code = 1;
    }
  };
  fill(source, ending);
  for (const int rank : {0, 1, 3}) {
    Collective abort = call_of(rank, 0);
    abort.event_id = make_event_id(abort.node_id, 3'000'000);
    abort.op = Operation::kCommAbort;
    abort.seq.reset();
    abort.timestamp_ns = kLastArrivalNs + 10 * kNsPerSecond;
    source.accept(abort);
  }
  const Report report = report_of(source);
  expect(report, Cause::kDeadRank, 2);
  EXPECT_NEAR(report.findings[0].stall_ms, 10'000, 100);
  expect_golden_text("dead_rank: the first of several", report.findings[0]);
}

/// Its neighbours' next calls fail at once, and they end long before the rank that still waits.
TEST(Dead, ACallThatFailedIsNoEndOfACollective) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kLast - 1) {
      leave_open(call);
    } else if (step == kLast) {
      call.return_code = 6;
      call.completion = Completion::kCall;
      return rank == 1 || rank == 3;
    }
    return true;
  };
  ending.process = [](int rank, Process& process) {
    if (rank == 2) {
      exit_at(process, kLastArrivalNs - kNsPerMs);
    } else if (rank != 0) {
      process.exit_ns = kLastArrivalNs + 100 * kNsPerMs;
      process.exit_code = 1;
    }
  };
  expect(report_of(ending), Cause::kDeadRank, 2);
}

TEST(Dead, ARankThatLeavesAtAHangsEndIsNotItsCause) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kLast) {
      leave_open(call);
    }
    return step < kLast || rank != 2;
  };
  ending.process = [](int rank, Process& process) {
    exit_at(process, kLastArrivalNs + 150 * kNsPerSecond + (rank == 2 ? 0 : kNsPerSecond));
  };
  expect(report_of(ending), Cause::kMissingCollective, 2);
}

TEST(Dead, SomeMayEndTheCollectiveInWhichARankDies) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kLast - 1 && rank != 3) {
      leave_open(call);
    } else if (step == kLast) {
      leave_open(call);
      return rank == 3;
    }
    return true;
  };
  ending.process = [](int rank, Process& process) {
    if (rank == 2) {
      exit_at(process, kLastArrivalNs);
    }
  };
  expect(report_of(ending), Cause::kDeadRank, 2);
}

TEST(HeldUp, CallsBehindAHangAreReportedWithIt) {
  for (const bool mismatch : {true, false}) {
    MemorySource source;
    Ending ending;
    ending.call = [&](int rank, int64_t step, Collective& call) {
      if (step == kLast) {
        leave_open(call);
        call.bytes /= mismatch && rank == 1 ? 2 : 1;
      }
      return true;
    };
    fill(source, ending);
    add_communicators(source);
    for (int rank = 0; rank < kRanks; ++rank) {
      source.accept(transfer(rank, (rank + 1) % kRanks, false, kLastArrivalNs + kNsPerMs, 1));
      source.accept(transfer(rank, (rank + kRanks - 1) % kRanks, true, kLastArrivalNs + kNsPerMs, 2));
    }
    expect(report_of(source), mismatch ? Cause::kMismatchedCollective : Cause::kUnknown,
           mismatch ? std::optional(1) : std::nullopt);
  }
}

TEST(HeldUp, RanksStuckInAnEarlierCallAreNotMissing) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kLast - 1 && rank != 3) {
      leave_open(call);
    } else if (step == kLast) {
      leave_open(call);
      return rank == 3;
    }
    return true;
  };
  expect(report_of(ending), Cause::kUnknown, std::nullopt);
}

}  // namespace
}  // namespace stalltrace::analysis
