// SPDX-License-Identifier: Apache-2.0
// Jobs whose ranks did not meet: the culprit and the evidence.
#include "analysis/causes/set_up/rendezvous.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;
constexpr int32_t kWorld = 3;

/// Three ranks on one host, started one second after the start of the recording, and observed for `seen_ns`.
class Job {
 public:
  explicit Job(int64_t seen_ns = 20 * kNsPerSecond) {
    Node node{.node_id = 1, .name = "node1"};
    node.started_ns = kOriginNs;
    node.ended_ns = kOriginNs + seen_ns;
    source_.accept(node);
  }

  Process process(int32_t rank) const {
    Process process{.node_id = 1, .pid = 100 + rank, .start_ns = kOriginNs + kNsPerSecond, .exe = "/usr/bin/python3"};
    process.rank = rank;
    process.rank_source = RankSource::kEnvironment;
    process.world_size = kWorld;
    process.settings = "MASTER_ADDR=10.0.0.1\nMASTER_PORT=29500\nWORLD_SIZE=3";
    return process;
  }
  void start(const Process& process) { source_.accept(process); }
  void start_all() {
    for (int32_t rank = 0; rank < kWorld; ++rank) {
      start(process(rank));
    }
  }
  /// Connects once a second; with `error` 0 the connection succeeds at once.
  void connect(int32_t pid, uint16_t port, int32_t error = 0, int attempts = 1) {
    for (int i = 0; i < attempts; ++i) {
      TcpEvent event{.event_id = make_event_id(1, ++events_), .node_id = 1};
      event.timestamp_ns = kOriginNs + (2 + i) * kNsPerSecond;
      event.event = error == 0 ? TcpEventKind::kConnect : TcpEventKind::kConnectFailed;
      event.pid = pid;
      event.cookie = events_;
      event.destination = {"10.0.0.1", port};
      event.state = error;
      source_.accept(event);
    }
  }
  /// Is inside a communicator's set-up from then on, or for `duration_ns`.
  void set_up(int32_t pid, int64_t from_ns = 3 * kNsPerSecond, std::optional<int64_t> duration_ns = std::nullopt) {
    Collective call = this->call(pid, Operation::kCommInitRank, from_ns);
    call.nranks = kWorld;
    call.duration_ns = duration_ns;
    source_.accept(call);
  }
  void reduce(int32_t pid) {
    Collective call = this->call(pid, Operation::kAllReduce, 3 * kNsPerSecond);
    call.duration_ns = kNsPerMs;
    call.seq = 0;
    source_.accept(call);
  }
  /// A recorded node has the address.
  void own(const std::string& address) {
    Connection row{.node_id = 1, .cookie = 999, .pid = 1, .family = 2, .source = {address, 22}};
    row.destination = {"10.0.0.9", 40000};
    source_.accept(row);
  }
  void lose(const std::string& what) { source_.accept(Loss{1, what, 7}); }
  Report report(std::set<ProcessKey> called = {}) {
    const Result<ExplainResult> result = explain(source_, {.window = {}, .instance = {}, .called = std::move(called)});
    EXPECT_TRUE(result.has_value());
    return result ? result->report : Report{};
  }

 private:
  Collective call(int32_t pid, Operation op, int64_t from_ns) {
    Collective call{.event_id = make_event_id(1, ++events_), .node_id = 1};
    call.timestamp_ns = kOriginNs + from_ns;
    call.op = op;
    call.library = Library::kGloo;
    call.completion = Completion::kCall;
    call.rank = pid - 100;
    call.comm_id_hash = 7;
    call.comm_ptr = 0xc000;
    call.pid = call.tid = pid;
    return call;
  }

  MemorySource source_;
  uint64_t events_ = 0;
};

/// The only finding, about this rank.
Finding failure_of(Job& job, int32_t rank, Severity severity = Severity::kCritical) {
  const Report report = job.report();
  EXPECT_EQ(report.findings.size(), 1U);
  if (report.findings.empty()) {
    return {};
  }
  const Finding& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::kInitFailure);
  EXPECT_EQ(finding.severity, severity);
  EXPECT_TRUE(finding.culprit);
  EXPECT_EQ(finding.culprit.value_or(Culprit{}).rank, rank) << finding.summary;
  return finding;
}

void expect_silence(Job& job) {
  const Report report = job.report();
  EXPECT_TRUE(report.findings.empty()) << report.findings.front().summary;
}

TEST(Rendezvous, AnotherPortIsNamed) {
  Job job;
  Process other = job.process(1);
  other.settings = "MASTER_ADDR=10.0.0.1\nMASTER_PORT=29999\nWORLD_SIZE=3";
  for (const Process& process : {job.process(0), other, job.process(2)}) {
    job.start(process);
  }
  expect_silence(job);  // no failure yet
  job.connect(100, 29500);
  job.connect(102, 29500);
  job.connect(101, 29999, ECONNREFUSED, 8);
  job.set_up(102);
  expect_golden_text("init_failure: another port", failure_of(job, 1));
}

/// A program can use another port than the one in its environment.
TEST(Rendezvous, AnotherPortThatTheEnvironmentDoesNotShow) {
  Job job;
  job.start_all();
  job.connect(100, 29500);
  job.connect(102, 29500);
  job.connect(101, 29999, ECONNREFUSED, 8);
  expect_silence(job);  // failed attempts are usual for so short a time
  job.connect(101, 29999, ECONNREFUSED, 12);
  expect_golden_text("init_failure: another port than its environment's", failure_of(job, 1, Severity::kWaiting));
}

/// It met the others; another service refuses it.
TEST(Rendezvous, RefusalsOfOtherServicesAreNone) {
  Job job;
  job.start_all();
  for (const int32_t pid : {100, 101, 102}) {
    job.connect(pid, 29500);
  }
  job.connect(101, 9091, ECONNREFUSED, 12);
  expect_silence(job);
}

TEST(Rendezvous, RefusalsUntilTheStoreListensAreNone) {
  Job job;
  job.start_all();
  job.connect(101, 29500, ECONNREFUSED, 8);
  job.connect(101, 29500);
  expect_silence(job);
}

TEST(Rendezvous, AStoreThatNobodyServes) {
  Job job;
  job.start(job.process(1));
  job.start(job.process(2));
  job.connect(101, 29500, ECONNREFUSED, 8);
  job.connect(102, 29500, ECONNREFUSED, 8);
  expect_silence(job);  // rank 0 may still be starting
  job.connect(101, 29500, ECONNREFUSED, 12);
  job.own("10.0.0.1");
  const Finding finding = failure_of(job, 0, Severity::kWaiting);
  EXPECT_EQ(finding.culprit.value_or(Culprit{}).pid, 0);
  expect_golden_text("init_failure: no store", finding);
}

/// Rank 0 and its node were not recorded: only the ranks that can't reach it are known.
TEST(Rendezvous, AStoreOnANodeThatWasNotRecorded) {
  Job job;
  job.start(job.process(1));
  job.start(job.process(2));
  job.connect(102, 29500, EHOSTUNREACH, 12);
  expect_golden_text("init_failure: a store elsewhere", failure_of(job, 2, Severity::kWaiting));
}

TEST(Rendezvous, ARankThatGaveUpIsAFailureAtOnce) {
  Job job;
  Process rank1 = job.process(1);
  rank1.exit_ns = kOriginNs + 6 * kNsPerSecond;
  rank1.exit_code = 1;
  job.start(rank1);
  job.start(job.process(2));
  job.connect(101, 29500, ECONNREFUSED, 4);
  job.own("10.0.0.1");
  EXPECT_EQ(failure_of(job, 0).cause, Cause::kInitFailure);
}

TEST(Rendezvous, AStoreThatIsNotReached) {
  Job job;
  job.start_all();
  job.connect(100, 29500);
  job.connect(102, 29500, EHOSTUNREACH, 12);
  expect_golden_text("init_failure: the store is not reached", failure_of(job, 2, Severity::kWaiting));
}

TEST(Rendezvous, ARankThatWasStartedTwice) {
  Job job;
  Process twin = job.process(1);
  twin.pid = 102;
  for (const Process& process : {job.process(0), job.process(1), twin}) {
    job.start(process);
  }
  for (const int32_t pid : {100, 101, 102}) {
    job.connect(pid, 29500);
    job.set_up(pid);
  }
  expect_golden_text("init_failure: a rank twice", failure_of(job, 1));
}

/// It has its parent's variables, but is an independent process.
TEST(Rendezvous, AChildIsNoSecondRank) {
  Job job;
  job.start_all();
  Process child = job.process(1);
  child.pid = 201;
  child.start_ns += 2 * kNsPerSecond;
  child.exit_ns = child.start_ns + kNsPerSecond;
  child.exit_code = 1;
  job.start(child);
  child.pid = 202;  // the next process
  child.start_ns += 2 * kNsPerSecond;
  child.exit_ns = child.start_ns + kNsPerSecond;
  job.start(child);
  for (const int32_t pid : {100, 101, 102}) {
    job.connect(pid, 29500);
  }
  job.connect(201, 443);
  job.set_up(100, 13 * kNsPerSecond);
  expect_silence(job);
}

TEST(Rendezvous, ARankThatEnded) {
  Job job;
  Process ended = job.process(1);
  ended.exit_ns = ended.start_ns + 1500 * kNsPerMs;
  ended.exit_code = 1;
  ended.settings += "\nGLOO_SOCKET_IFNAME=nonesuch";
  for (const Process& process : {job.process(0), ended, job.process(2)}) {
    job.start(process);
  }
  job.set_up(100);
  job.set_up(102);
  expect_golden_text("init_failure: a rank ended", failure_of(job, 1));
}

TEST(Rendezvous, ARankThatWasNeverStarted) {
  for (const int64_t seen_ns : {8 * kNsPerSecond, 20 * kNsPerSecond, 40 * kNsPerSecond}) {
    Job job(seen_ns);
    job.start(job.process(0));
    job.start(job.process(1));
    job.connect(101, 29500);
    job.set_up(101);
    if (seen_ns < 13 * kNsPerSecond) {
      expect_silence(job);
    } else {
      const bool long_ago = seen_ns > 33 * kNsPerSecond;
      const Finding finding = failure_of(job, 2, long_ago ? Severity::kCritical : Severity::kWaiting);
      expect_golden_text(long_ago ? "init_failure: never started" : "init_failure: not started yet", finding);
    }
  }
}

/// The whole job was ended from outside.
TEST(Rendezvous, RanksThatEndTogetherAreMissedByNobody) {
  Job job;
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    Process process = job.process(rank);
    process.exit_ns = process.start_ns + 5 * kNsPerSecond + rank * kNsPerMs;
    process.exit_signal = 9;
    job.start(process);
    job.connect(process.pid, 29500);
    job.set_up(process.pid);
  }
  expect_silence(job);
}

/// A rank that exits in good order while the others wait is missed as well.
TEST(Rendezvous, ARankThatLeftInGoodOrderIsMissed) {
  Job job;
  Process left = job.process(1);
  left.exit_ns = left.start_ns + 1500 * kNsPerMs;
  left.exit_code = 0;
  for (const Process& process : {job.process(0), left, job.process(2)}) {
    job.start(process);
  }
  job.set_up(100);
  EXPECT_NE(failure_of(job, 1).summary.find("ended with exit code 0"), std::string::npos);
}

TEST(Rendezvous, AProgramThatEndsAfterItsCommunicatorsWereMadeIsNoSetUp) {
  Job job;
  Process ended = job.process(1);
  ended.exit_ns = ended.start_ns + 5 * kNsPerSecond;
  ended.exit_code = 1;
  for (const Process& process : {job.process(0), ended, job.process(2)}) {
    job.start(process);
    job.set_up(process.pid, 2 * kNsPerSecond, kNsPerSecond);
  }
  job.set_up(102, 8 * kNsPerSecond);
  expect_silence(job);
}

/// It uses this name for its own host; the others use its address.
TEST(Rendezvous, LocalhostOnRank0IsNoDifferenceThatMatters) {
  Job job;
  Process zero = job.process(0);
  zero.settings = "MASTER_ADDR=localhost\nMASTER_PORT=29500\nWORLD_SIZE=3";
  for (const Process& process : {zero, job.process(1), job.process(2)}) {
    job.start(process);
    job.connect(process.pid, 29500);
    job.set_up(process.pid, 10 * kNsPerSecond);
  }
  expect_silence(job);
}

TEST(Rendezvous, AnotherPortOnRank0KeepsTheOthersAway) {
  Job job;
  Process zero = job.process(0);
  zero.settings = "MASTER_ADDR=10.0.0.1\nMASTER_PORT=29501\nWORLD_SIZE=3";
  for (const Process& process : {zero, job.process(1), job.process(2)}) {
    job.start(process);
  }
  job.connect(100, 29501);
  job.connect(101, 29500, ECONNREFUSED, 4);
  job.connect(102, 29500, ECONNREFUSED, 4);
  EXPECT_NE(failure_of(job, 0).summary.find("MASTER_PORT"), std::string::npos);
}

TEST(Rendezvous, CallsThatAreNotInTheSourceCount) {
  for (const bool lost : {false, true}) {
    Job job;
    job.start(job.process(0));
    job.start(job.process(1));
    job.set_up(101);
    if (lost) {
      job.lose("pruned:collective");
    }
    const Report report = job.report(lost ? std::set<ProcessKey>() : std::set<ProcessKey>{{1, 100}});
    EXPECT_TRUE(report.findings.empty()) << report.findings.front().summary;
  }
}

TEST(Rendezvous, JobsThatCalledAreSetUp) {
  Job job;
  Process ended = job.process(1);
  ended.exit_ns = ended.start_ns + 5 * kNsPerSecond;
  ended.exit_code = 1;
  for (const Process& process : {job.process(0), ended, job.process(2)}) {
    job.start(process);
    job.reduce(process.pid);
  }
  job.connect(102, 29999, ECONNREFUSED, 8);
  for (const Finding& finding : job.report().findings) {
    EXPECT_NE(finding.cause, Cause::kInitFailure) << finding.summary;
  }
}

/// Their earlier activity is unknown: they may have been set up long ago.
TEST(Rendezvous, RanksThatWereThereBeforeTheRecordingAreNotJudged) {
  Job job;
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    Process process = job.process(rank);
    process.start_ns = kOriginNs - kNsPerSecond;
    job.start(process);
  }
  job.connect(101, 29500, ECONNREFUSED, 8);
  expect_silence(job);
}

/// Two jobs, each with its own address.
TEST(Rendezvous, AnotherJobIsNoDifference) {
  Job job;
  job.start_all();
  for (int32_t rank = 0; rank < kWorld; ++rank) {
    Process process = job.process(rank);
    process.pid += 100;
    process.settings = "MASTER_ADDR=10.0.0.1\nMASTER_PORT=29600\nWORLD_SIZE=3";
    if (rank == 2) {
      process.exit_ns = process.start_ns + kNsPerSecond;
      process.exit_code = 1;
    }
    job.start(process);
  }
  job.set_up(200);
  const Finding finding = failure_of(job, 2);
  EXPECT_EQ(finding.culprit.value_or(Culprit{}).pid, 202);
  EXPECT_EQ(finding.summary.find("MASTER_PORT"), std::string::npos) << finding.summary;
}

}  // namespace
}  // namespace stalltrace::analysis
