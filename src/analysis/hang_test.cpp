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
