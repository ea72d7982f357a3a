// SPDX-License-Identifier: Apache-2.0
// Communicators that could not be set up, and set-ups that only take long.
#include "analysis/causes/set_up/init_failure.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/testing/golden_text.h"
#include "analysis/testing/ring_job.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;

void describe_job(
    MemorySource& source, int64_t seen_ns = 20 * kNsPerSecond,
    const std::function<void(int rank, Process&)>& change = [](int, Process&) {}) {
  Ending ending;
  ending.node = [=](int, Node& node) { node.ended_ns = kOriginNs + seen_ns; };
  ending.process = [&](int rank, Process& process) {
    process.world_size = kRanks;
    change(rank, process);
  };
  describe(source, ending);
}

/// All ranks except `elsewhere` are inside the set-up of their communicator until the end of the recording.
void add_ranks(MemorySource& source, std::optional<int> elsewhere, int64_t seen_ns = 20 * kNsPerSecond) {
  describe_job(source, seen_ns);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != elsewhere) {
      Collective call = call_of(rank, 0);
      call.op = Operation::kCommInitRank;
      call.seq.reset();
      leave_open(call);
      source.accept(call);
    }
  }
}

/// The result when a rank connects to `destination` once a second.
TcpEvent attempt_of(int rank, TcpEventKind kind, int attempt, const Endpoint& destination) {
  TcpEvent event = event_of(rank, kind, kOriginNs + (attempt + 1) * kNsPerSecond);
  event.destination = destination;
  event.cookie = static_cast<uint64_t>(rank);
  event.state = kind == TcpEventKind::kConnectFailed ? 111 : 0;
  return event;
}

/// Three ranks set up their communicator for 20 s; rank 2 is not inside.
void fill_setup(MemorySource& source, TcpEventKind kind, int attempts, const std::string& target) {
  add_ranks(source, 2);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    source.accept(attempt_of(2, kind, attempt, {target, 29500}));
  }
}

TEST(InitFailure, TheRankThatDoesNotReachTheRendezvousIsNamed) {
  for (const TcpEventKind kind : {TcpEventKind::kConnectFailed, TcpEventKind::kRetransmit}) {
    MemorySource source;
    fill_setup(source, kind, 8, "10.77.0.1");
    const Report report = report_of(source);
    expect(report, Cause::kInitFailure, 2);
    ASSERT_FALSE(report.findings.empty());
    const bool refused = kind == TcpEventKind::kConnectFailed;
    EXPECT_EQ(evidence_of(report.findings[0], refused ? "connect_failed" : "tcp_retransmit_skb").count, 8);
    expect_golden_text(refused ? "init_failure: refused" : "init_failure: not answered", report.findings[0]);
    EXPECT_EQ(report.findings[0].op, Operation::kCommInitRank);
  }
}

/// All ranks are in the set-up of their communicator; each rank of `tries` gets `kind` at one address, `attempts`
/// times.
Report report_of_tries(const std::vector<int>& tries, TcpEventKind kind, const std::string& address, int attempts = 5,
                       int64_t seen_ns = 20 * kNsPerSecond, bool owned = false, bool connects = false) {
  MemorySource source;
  add_ranks(source, std::nullopt, seen_ns);
  if (owned) {
    Connection row{.node_id = 1, .cookie = 9, .pid = 10, .family = 2, .source = {address, 29500}};
    row.destination = {"10.77.0.4", 40000};
    source.accept(row);
  }
  for (int attempt = 0; attempt < attempts; ++attempt) {
    for (const int rank : tries) {
      const TcpEvent event = attempt_of(rank, kind, attempt, {address, 40123});
      source.accept(event);
      if (connects) {
        TcpEvent connected = event_of(rank, TcpEventKind::kConnect, event.timestamp_ns + 100 * kNsPerMs);
        connected.destination = event.destination;
        connected.cookie = event.cookie;
        source.accept(connected);
      }
    }
  }
  return report_of(source);
}

Report loopback_report(const std::vector<int>& tries) {
  return report_of_tries(tries, TcpEventKind::kConnectFailed, "127.0.0.1");
}

TEST(InitFailure, WhoAnnouncedALoopbackAddressIsNamed) {
  expect(loopback_report({1}), Cause::kInitFailure, 2);  // the next rank in the ring
  expect(loopback_report({3}), Cause::kInitFailure, 0);
  expect(loopback_report({1, 2, 3}), Cause::kInitFailure, 0);  // the rank of the unique id
}

TEST(InitFailure, ALoopbackAddressMeansAWrongInterface) {
  MemorySource source;
  fill_setup(source, TcpEventKind::kConnectFailed, 8, "127.0.0.1");
  const Report report = report_of(source);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, Cause::kInitFailure);
  expect_golden_text("init_failure: a loopback address", report.findings[0]);
}

/// In a full mesh, each of the other ranks tries the address that one rank announced: three unanswered SYNs, one each.
TEST(InitFailure, AnAddressOfNoNetworkOfTheJobMeansAWrongInterface) {
  const auto report = [](bool owned) {
    return report_of_tries({0, 1, 3}, TcpEventKind::kRetransmit, "10.66.0.3", 1, 2500 * kNsPerMs, owned);
  };
  expect(report(false), Cause::kInitFailure, 2);
  expect_golden_text("init_failure: an address of no network of the job", report(false).findings.at(0));
  const Report owned = report(true);
  ASSERT_EQ(owned.findings.size(), 1U);
  EXPECT_NE(owned.findings[0].culprit->rank, 2) << "the address is the job's: who did not reach it is named";
}

TEST(InitFailure, IsReportedBeforeTheUsualTimeOnlyWhereConnectionsComeToNothing) {
  for (const int64_t seen_ns : {1500 * kNsPerMs, 2500 * kNsPerMs}) {
    const Report report = report_of_tries({0, 1, 3}, TcpEventKind::kRetransmit, "10.66.0.3", 1, seen_ns);
    EXPECT_EQ(report.healthy, seen_ns < 2 * kNsPerSecond) << reported(report);
  }
  // Connections that were established after a retransmission were only late.
  const Report late =
      report_of_tries({0, 1, 3}, TcpEventKind::kRetransmit, "10.66.0.3", 1, 2500 * kNsPerMs, false, true);
  EXPECT_TRUE(late.healthy) << reported(late);
  // Refusals of one attempt each are usual while ranks start.
  const Report refused = report_of_tries({0, 1, 3}, TcpEventKind::kConnectFailed, "10.77.0.3", 1, 2500 * kNsPerMs);
  EXPECT_TRUE(refused.healthy) << reported(refused);
}

/// Rank 1 tries an address from which nothing of the job comes; `call` changes the calls that set communicators up,
/// `process` the processes.
Finding not_reached(
    const std::function<bool(int rank, Collective&)>& call,
    const std::function<void(int rank, Process&)>& process = [](int, Process&) {}) {
  MemorySource source;
  describe_job(source, 20 * kNsPerSecond, process);
  for (int rank = 0; rank < kRanks; ++rank) {
    Collective row = call_of(rank, 0);
    row.op = Operation::kCommInitRank;
    row.seq.reset();
    leave_open(row);
    if (call(rank, row)) {
      source.accept(row);
    }
  }
  for (int attempt = 0; attempt < 5; ++attempt) {
    source.accept(attempt_of(1, TcpEventKind::kConnectFailed, attempt, {"127.0.0.1", 29500}));
  }
  return only(source);
}

/// The rank at the address, which may not be recorded, may be to blame.
TEST(InitFailure, NoneIsNamedUnlessAllRanksOfTheCommunicatorAreRecorded) {
  const auto without_rank2 = [](int rank, Collective&) { return rank != 2; };
  const Finding recorded = not_reached(without_rank2);
  ASSERT_TRUE(recorded.culprit.has_value()) << "rank 2 is of the job, and outside of the call";
  EXPECT_EQ(recorded.culprit->rank, 1);
  for (const auto& [what, change] : std::vector<std::pair<std::string, std::function<void(Process&)>>>{
           {"another job", [](Process& process) { process.job_id = "other"; }},
           {"a larger job", [](Process& process) { process.world_size = 2 * kRanks; }},
           {"an unknown job", [](Process& process) { process.world_size.reset(); }}}) {
    const Finding finding = not_reached(without_rank2, [&](int rank, Process& process) {
      if (rank == 2) {
        change(process);
      }
    });
    EXPECT_EQ(finding.cause, Cause::kInitFailure);
    EXPECT_FALSE(finding.culprit.has_value()) << what << ": " << finding.summary;
  }
  const Finding unknown_size = not_reached([](int rank, Collective& call) {
    call.nranks.reset();
    return rank != 2;
  });
  EXPECT_EQ(unknown_size.cause, Cause::kInitFailure);
  EXPECT_FALSE(unknown_size.culprit.has_value()) << unknown_size.summary;
  // Two communicators of four ranks each, of which two were recorded.
  const Finding two = not_reached(
      [](int rank, Collective& call) {
        call.comm_id_hash += static_cast<CommHash>(rank % 2);
        return true;
      },
      [](int, Process& process) { process.world_size = 2 * kRanks; });
  EXPECT_EQ(two.cause, Cause::kInitFailure);
  EXPECT_FALSE(two.culprit.has_value()) << two.summary;
}

TEST(InitFailure, SlowStartsWithoutRefusalsAreHealthy) {
  for (const int attempts : {0, 2}) {
    MemorySource source;
    fill_setup(source, TcpEventKind::kConnectFailed, attempts, "10.77.0.1");
    const Report report = report_of(source);
    EXPECT_TRUE(report.healthy) << reported(report);
  }
}

}  // namespace
}  // namespace stalltrace::analysis
