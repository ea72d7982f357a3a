// SPDX-License-Identifier: Apache-2.0
// When an open call is a hang, and when it is only the end of what was observed.
#include <gtest/gtest.h>

#include <functional>

#include "analysis/explain.h"
#include "base/clock.h"

namespace stalltrace::analysis {
namespace {

constexpr int kRanks = 4;
constexpr int kSteps = 100;
constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;
constexpr int64_t kStepNs = 50 * kNsPerMs;
constexpr int64_t kRecordedNs = 600 * kNsPerSecond;  // agents run on long after the job
constexpr CommHash kHash = 77;

/// The call of one rank in one step of a healthy job.
Collective call_of(int rank, int64_t step, CommHash hash = kHash) {
  const auto node = static_cast<NodeId>(1 + rank);
  Collective call{.event_id = make_event_id(node, static_cast<uint64_t>(step + 1) + (hash == kHash ? 0 : 1'000'000)),
                  .node_id = node};
  call.timestamp_ns = kOriginNs + step * kStepNs + rank * 100 * kNsPerUs;
  call.duration_ns = 5 * kNsPerMs;
  call.completion = Completion::kSync;
  call.seq = step;
  call.rank = rank;
  call.nranks = kRanks;
  call.comm_id_hash = hash;
  call.comm_ptr = hash;
  call.pid = call.tid = 10 + rank;
  call.bytes = 1 << 20;
  return call;
}

void leave_open(Collective& call) {
  call.duration_ns.reset();
  call.completion = Completion::kOpen;
}

/// What ends the job or its observation: changes the rows of each rank; false drops a call.
struct Ending {
  std::function<bool(int rank, int64_t step, Collective&)> call = [](int, int64_t, Collective&) { return true; };
  std::function<void(int rank, Process&)> process = [](int, Process&) {};
  std::function<void(int rank, Node&)> node = [](int, Node&) {};
};

void fill(MemorySource& source, const Ending& ending) {
  for (int rank = 0; rank < kRanks; ++rank) {
    Node node{.node_id = static_cast<NodeId>(1 + rank), .name = "node", .boot_id = "boot", .started_ns = kOriginNs};
    node.name += std::to_string(rank);
    node.ended_ns = kOriginNs + kRecordedNs;
    ending.node(rank, node);
    source.accept(node);
    Process process{.node_id = node.node_id, .pid = 10 + rank, .exe = "/opt/job/train"};
    process.rank = rank;
    ending.process(rank, process);
    source.accept(process);
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call = call_of(rank, step);
      if (ending.call(rank, step, call)) {
        source.accept(call);
      }
    }
  }
}

Report report_of(MemorySource& source) {
  const Result<Report> report = explain(source);
  EXPECT_TRUE(report.has_value());
  return report ? *report : Report{};
}

Report report_of(const Ending& ending) {
  MemorySource source;
  fill(source, ending);
  return report_of(source);
}

std::string told(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += finding.summary + "\n";
  }
  return text;
}

constexpr int64_t kLastArrivalNs = kOriginNs + (kSteps - 1) * kStepNs;

void exit_at(Process& process, int64_t time_ns) {
  process.exit_ns = time_ns;
  process.exit_signal = 15;
}

TEST(Hang, AJobThatIsKilledAsAWholeIsHealthy) {
  for (const bool all_inside : {true, false}) {
    Ending ending;
    ending.call = [&](int rank, int64_t step, Collective& call) {
      if (step == kSteps - 1) {
        leave_open(call);
        return all_inside || rank < 2;
      }
      return true;
    };
    ending.process = [](int rank, Process& process) { exit_at(process, kLastArrivalNs + (10 + rank) * kNsPerMs); };
    const Report report = report_of(ending);
    EXPECT_TRUE(report.healthy) << told(report);
  }
}

TEST(Hang, AgentsStoppedOneByOneInAHealthyJobFindNothing) {
  Ending ending;
  const auto last_step = [](int rank) { return kSteps - 1 - 20 * (kRanks - 1 - rank); };
  ending.call = [&](int rank, int64_t step, Collective& call) {
    if (step == last_step(rank)) {
      leave_open(call);
    }
    return step <= last_step(rank);
  };
  ending.node = [&](int rank, Node& node) { node.ended_ns = kOriginNs + last_step(rank) * kStepNs + 2 * kNsPerMs; };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.healthy) << told(report);
}

TEST(Hang, ARankKilledWhileOthersGoOnWaitingIsFoundAndNamed) {
  for (const bool inside : {true, false}) {
    Ending ending;
    ending.call = [&](int rank, int64_t step, Collective& call) {
      if (step == kSteps - 1) {
        leave_open(call);
        return inside || rank != 2;
      }
      return true;
    };
    ending.process = [](int rank, Process& process) {
      exit_at(process, kLastArrivalNs + (rank == 2 ? 10 * kNsPerMs : 30 * kNsPerSecond));
    };
    const Report report = report_of(ending);
    ASSERT_EQ(report.findings.size(), 1U) << inside;
    const Finding& finding = report.findings[0];
    EXPECT_EQ(finding.cause, Cause::kUnknown);
    EXPECT_NEAR(finding.stall_ms, 30'000, 100);  // until the last of the waiting ended, not the agents
    std::string exits;
    for (const Evidence& evidence : finding.evidence) {
      exits += evidence.kind == "process_exit" ? evidence.text : "";
    }
    EXPECT_NE(exits.find("rank 2 (node2, pid 12) was ended by signal 15"), std::string::npos) << exits;
  }
}

TEST(Hang, AHangWithLiveRanksLastsToTheEnd) {
  Ending ending;
  ending.call = [&](int, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      leave_open(call);
    }
    return true;
  };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].severity, Severity::kCritical);
  EXPECT_GT(report.findings[0].stall_ms, 590'000);
}

TEST(Hang, EndsThatAreNeverSeenAreANoteAndNoHang) {
  Ending ending;
  ending.call = [&](int, int64_t, Collective& call) {
    leave_open(call);
    return true;
  };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.healthy) << told(report);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_NE(report.notes[0].find("no end of a collective was ever seen"), std::string::npos);
}

TEST(Hang, ADeadlockOverTwoCommunicatorsIsUnknownAndNamesBothCalls) {
  MemorySource source;
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      leave_open(call);
      return rank != 1;  // it is inside the other communicator's call
    }
    return true;
  };
  fill(source, ending);
  constexpr CommHash kOther = 99;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const int rank : {0, 1}) {
      Collective call = call_of(rank, step, kOther);
      call.timestamp_ns += 10 * kNsPerMs;
      call.nranks = 2;
      call.op = Operation::kAllGather;
      if (step == kSteps - 1) {
        leave_open(call);
      }
      if (step < kSteps - 1 || rank == 1) {
        source.accept(call);
      }
    }
  }
  WaitSpan blocked{.node_id = 2, .timestamp_ns = kLastArrivalNs + 10 * kNsPerMs, .window_ns = 500 * kNsPerSecond};
  blocked.waited_ns = blocked.window_ns;
  blocked.pid = blocked.tid = 11;
  source.accept(blocked);
  const Report report = report_of(source);
  ASSERT_FALSE(report.healthy);
  std::string text;
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.cause, Cause::kUnknown) << finding.summary;
    for (const Evidence& evidence : finding.evidence) {
      text += evidence.text + "\n";
    }
  }
  EXPECT_NE(text.find("rank 1 (node1, pid 11) is itself inside AllGather on communicator 0x0000000000000063, while the "
                      "others wait for it in AllReduce on communicator 0x000000000000004d"),
            std::string::npos)
      << text;
}

TEST(CorruptRows, ManyRanksAreCountedAndAFewListed) {
  Ending ending;
  ending.call = [](int, int64_t, Collective& call) {
    call.nranks = 2'000'000'000;
    return true;
  };
  const Report report = report_of(ending);
  EXPECT_TRUE(report.healthy) << told(report);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_NE(report.notes[0].find("not recorded: ranks 4, 5,"), std::string::npos);
  EXPECT_LT(report.notes[0].size(), 200U);
}

TEST(CorruptRows, SequenceNumbersThatJumpCostNoMemory) {
  for (const int64_t jump : {int64_t{1'000'000}, int64_t{1} << 36, int64_t{1} << 62, int64_t{-7}}) {
    MemorySource source;
    for (int64_t step = 0; step < 20'000; ++step) {
      Collective call = call_of(0, step);
      call.seq = static_cast<int64_t>((static_cast<uint64_t>(jump) * static_cast<uint64_t>(step)) & ~(1ULL << 63));
      source.accept(call);
    }
    const Report report = report_of(source);
    EXPECT_EQ(report.collectives, 20'000);
    ASSERT_FALSE(report.notes.empty());
    EXPECT_NE(report.notes[0].find("impossible sequence number"), std::string::npos);
  }
}

TEST(CorruptRows, AGapOrAStrayRowDoesNotDropTheRestOfARank) {
  constexpr int64_t kGap = 5'000'000;
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    call.seq = step < 50 ? step : step + kGap;
    if (step == 20 && rank == 1) {
      call.seq = 1LL << 39;
    }
    if (step == kSteps - 1) {
      leave_open(call);
      return rank != 2;
    }
    return true;
  };
  const Report report = report_of(ending);
  ASSERT_EQ(report.findings.size(), 1U) << told(report);
  ASSERT_TRUE(report.findings[0].culprit.has_value());
  EXPECT_EQ(report.findings[0].culprit->rank, 2);
}

TEST(Hang, IsNotDismissedWhenARankSharesItsCoreWithTheJob) {
  MemorySource source;
  Ending ending;
  ending.call = [](int, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      leave_open(call);
    }
    return true;
  };
  fill(source, ending);
  WaitSpan ready{.node_id = 2, .timestamp_ns = kLastArrivalNs, .window_ns = 80 * kNsPerSecond};
  ready.waited_ns = ready.by_waited_ns = ready.window_ns;
  ready.kind = WaitKind::kRunnable;
  ready.pid = ready.tid = 11;
  ready.by_pid = 11;
  ready.by_name = "train";
  source.accept(ready);
  const Report report = report_of(source);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown);
}

TEST(Hang, AHangInTheFirstStepIsFound) {
  Ending ending;
  ending.call = [&](int, int64_t step, Collective& call) {
    leave_open(call);
    return step < 4;  // buckets of one step
  };
  EXPECT_EQ(report_of(ending).findings.size(), 1U);
}

}  // namespace
}  // namespace stalltrace::analysis
