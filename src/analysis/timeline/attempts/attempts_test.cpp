// SPDX-License-Identifier: Apache-2.0
// Jobs whose communicators share a name are separated; the parts of one job stay together.
#include "analysis/timeline/attempts/attempts.h"

#include <gtest/gtest.h>

#include <set>

#include "analysis/explain.h"
#include "analysis/testing/job_runs.h"
#include "analysis/testing/replay.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using Processes = std::set<int32_t>;  // by pid

Report report_of(MemorySource& source) {
  const Result<ExplainResult> result = explain(source);
  EXPECT_TRUE(result.has_value());
  return result ? result->report : Report{};
}

std::vector<Processes> attempts_in(const Report& report) {
  std::vector<Processes> attempts;
  for (const JobAttempt& attempt : report.attempts) {
    Processes pids;
    for (const auto& [node, pid] : attempt.processes) {
      pids.insert(pid);
    }
    attempts.push_back(std::move(pids));
  }
  return attempts;
}

/// Expects these attempts and no finding.
void expect_healthy(JobRuns& runs, const std::vector<Processes>& attempts) {
  const Report report = report_of(runs.source);
  EXPECT_EQ(attempts_in(report), attempts);
  EXPECT_TRUE(report.healthy) << report.findings.front().summary;
}

/// Only the later part of the rank's calls is recorded.
auto attached_at(int32_t rank, int64_t step) {
  return [=](int32_t who, int64_t number, Collective&) { return who != rank || number >= step; };
}

TEST(Attempts, TheNextJobAtTheSameAddressIsAnother) {
  JobRuns runs;
  const int64_t end_ns = runs.add({});
  runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .seed = 2});
  expect_healthy(runs, {{100, 101}, {200, 201}});
}

TEST(Attempts, OneJobIsOne) {
  JobRuns runs;
  runs.add({.ranks = 4});
  expect_healthy(runs, {{100, 101, 102, 103}});
}

TEST(Attempts, LostProcessRowsJoinNoJobs) {
  JobRuns runs;
  const int64_t end_ns = runs.add({.process_rows = false});
  runs.add({.first_pid = 200, .begin_ns = end_ns, .seed = 2, .process_rows = false});
  expect_healthy(runs, {{100, 101}, {200, 201}});
}

TEST(Attempts, ARestartWithFewerRanks) {
  JobRuns runs;
  const int64_t end_ns = runs.add({.ranks = 4});
  runs.add({.first_pid = 200, .begin_ns = end_ns + kNsPerSecond + 100 * kNsPerMs, .seed = 2});
  expect_healthy(runs, {{100, 101, 102, 103}, {200, 201}});
}

TEST(Attempts, ARankThatWasAttachedLateIsNoOther) {
  JobRuns runs;
  runs.add({.ranks = 3, .call = attached_at(1, 60)});
  expect_healthy(runs, {{100, 101, 102}});
}

TEST(Attempts, ARankWithoutAProcessRowIsNoOther) {
  JobRuns runs;
  runs.add({.ranks = 3, .process_rows = false, .call = attached_at(2, 60)});
  expect_healthy(runs, {{100, 101, 102}});
}

TEST(Attempts, ARankThatStartsAfterAnotherEndedIsNoOtherWhereMoreWereThere) {
  MemorySource source;
  source.accept(Node{.node_id = 1, .name = "node", .boot_id = "boot"});
  const auto add = [&](int32_t rank, int64_t start_s, int64_t exit_s) {
    Process process{.node_id = 1, .pid = 100 + rank, .start_ns = JobRuns::kOriginNs + start_s * kNsPerSecond};
    process.rank = rank;
    process.exit_ns = JobRuns::kOriginNs + exit_s * kNsPerSecond;
    source.accept(process);
    Collective call{.event_id = 1 + rank, .node_id = 1, .timestamp_ns = process.start_ns + kNsPerSecond};
    call.rank = rank;
    call.seq = 0;
    call.comm_id_hash = 77;
    call.pid = process.pid;
    source.accept(call);
  };
  add(0, 0, 5);
  add(1, 10, 20);  // after rank 0 ended
  add(2, 0, 20);
  EXPECT_EQ(attempts_in(report_of(source)), (std::vector<Processes>{{100, 101, 102}}));
}

TEST(Attempts, JobsAtTheSameTimeWithOneNameAreApart) {
  JobRuns runs;
  runs.add({});
  runs.add({.first_pid = 200, .begin_ns = 7 * kNsPerMs, .seed = 2});
  expect_healthy(runs, {{100, 101}, {200, 201}});
}

/// The default address of a job on one host, used on two hosts.
TEST(Attempts, JobsOfTwoHostsWithOneNameAreApart) {
  JobRuns runs({0, 0});
  runs.add({.nodes = {1}});
  runs.add({.first_pid = 200, .begin_ns = 300 * kNsPerMs, .nodes = {2}, .seed = 2});
  expect_healthy(runs, {{100, 101}, {200, 201}});
}

TEST(Attempts, OfSeveralHosts) {
  JobRuns runs({0, 3 * kNsPerMs});
  const int64_t end_ns = runs.add({.ranks = 4, .nodes = {1, 2}});
  runs.add({.first_pid = 200, .ranks = 4, .begin_ns = end_ns + 2 * kNsPerSecond, .nodes = {1, 2}, .seed = 2});
  expect_healthy(runs, {{100, 101, 102, 103}, {200, 201, 202, 203}});
}

/// By its clock, the second host's first run coincides with the first host's second.
TEST(Attempts, OfHostsWhoseClocksAreOff) {
  for (const int64_t error_ns : {-8 * kNsPerSecond, 8 * kNsPerSecond, 3600 * kNsPerSecond}) {
    JobRuns runs({0, error_ns});
    const int64_t end_ns = runs.add({.nodes = {1, 2}});
    runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .nodes = {1, 2}, .seed = 2});
    SCOPED_TRACE(error_ns);
    expect_healthy(runs, {{100, 101}, {200, 201}});
  }
}

TEST(Attempts, OfAHostThatSawOnlyTheSecond) {
  JobRuns runs({0, 0});
  const int64_t end_ns =
      runs.add({.nodes = {1, 2}, .call = [](int32_t rank, int64_t, Collective&) { return rank == 0; }});
  runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .nodes = {1, 2}, .seed = 2});
  const Report report = report_of(runs.source);
  EXPECT_TRUE(report.healthy) << report.findings.front().summary;
  ASSERT_EQ(report.attempts.size(), 2U);
  EXPECT_EQ(report.attempts[1].ranks, 2);
}

/// A new rendezvous may assign the first ranks to other hosts: no host has a rank twice.
TEST(Attempts, RanksThatChangedNodes) {
  JobRuns runs({0, 0});
  const int64_t end_ns = runs.add({.nodes = {1, 2}});
  runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .nodes = {1, 2}, .first_rank = 1, .seed = 2});
  expect_healthy(runs, {{100, 101}, {200, 201}});
}

TEST(Attempts, OnCommunicatorsMadeBeforeTracing) {
  JobRuns runs;
  const int64_t end_ns = runs.add({.hash = 0});
  runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .hash = 0, .seed = 2});
  expect_healthy(runs, {{100, 101}, {200, 201}});
}

/// Their communicators have no names; the only fact is that no job of two ranks has four.
TEST(Attempts, JobsAtTheSameTimeOnCommunicatorsMadeBeforeTracing) {
  JobRuns runs;
  runs.add({.hash = 0});
  runs.add({.first_pid = 200, .begin_ns = 40 * kNsPerMs, .hash = 0, .seed = 2});
  expect_healthy(runs, {{100, 101}, {200, 201}});
}

/// As with NCCL, whose communicators have unique names.
TEST(Attempts, OtherNamesAreOtherAttemptsToo) {
  JobRuns runs;
  const int64_t end_ns = runs.add({});
  runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .hash = 78, .seed = 2});
  expect_healthy(runs, {{100, 101}, {200, 201}});
}

/// Parallel groups without a communicator of all ranks.
TEST(Attempts, GroupsOfOneJobAreOne) {
  JobRuns runs;
  const auto of = [](CommHash hash) {
    return [hash](int32_t rank, int64_t, Collective& call) {
      call.comm_id_hash = hash + static_cast<CommHash>(rank / 2);
      call.rank = rank % 2;
      call.nranks = 2;
      return true;
    };
  };
  runs.add({.ranks = 4, .hash = 0, .call = of(500)});
  expect_healthy(runs, {{100, 101, 102, 103}});
}

TEST(Attempts, AProcessThatTwoAgentsRecordedIsOne) {
  JobRuns runs({0, 0}, true);
  runs.add({.nodes = {1}});
  runs.add({.nodes = {2}, .call = [](int32_t, int64_t step, Collective&) { return step >= 50; }});
  EXPECT_EQ(report_of(runs.source).attempts.size(), 1U);
}

TEST(Attempts, SayWhyTheyEnded) {
  JobRuns runs;
  const int64_t end_ns = runs.add({.exit_code = 1});
  runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .seed = 2});
  const Report report = report_of(runs.source);
  ASSERT_EQ(report.attempts.size(), 2U);
  golden::expect_text(report.attempts[0].end);
  ASSERT_TRUE(report.attempts[0].ended_by.has_value());
  EXPECT_EQ(report.attempts[0].ended_by->pid, 100);
  golden::expect_text(report.attempts[1].end);
  EXPECT_FALSE(report.attempts[1].ended_by.has_value());
}

/// Rank 1 is 25 ms late in every call from step 40 on.
bool late(int32_t rank, int64_t step, Collective& call) {
  constexpr int64_t kLateNs = 25 * kNsPerMs;
  if (step >= 40) {
    call.timestamp_ns += rank == 1 ? kLateNs : 0;
    call.duration_ns = *call.duration_ns + (rank == 1 ? 0 : kLateNs);
  }
  return true;
}

TEST(Attempts, AFindingNamesItsOwn) {
  JobRuns runs;
  const int64_t end_ns = runs.add({});
  runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .seed = 2, .call = late});
  const Report report = report_of(runs.source);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].attempt, 2);
  ASSERT_TRUE(report.findings[0].culprit.has_value());
  EXPECT_EQ(report.findings[0].culprit->pid, 201);
}

TEST(Attempts, AnInstanceIsOfOne) {
  JobRuns runs;
  const int64_t end_ns = runs.add({});
  runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .seed = 2});
  const Result<ExplainResult> result = explain(runs.source, {.instance = make_event_id(1, 301)});
  ASSERT_TRUE(result && result->inspection);
  EXPECT_EQ(result->inspection->attempt, 2);
  EXPECT_EQ(result->inspection->number, 50);
  EXPECT_EQ(result->inspection->calls.size(), 2U);
}

TEST(Attempts, LiveAsWell) {
  JobRuns runs;
  const int64_t end_ns = runs.add({.steps = 300});
  runs.add({.first_pid = 200, .begin_ns = end_ns + 2 * kNsPerSecond, .steps = 600, .seed = 2, .call = late});
  const Replay replay(runs.source);
  LiveAnalysis live;
  const std::vector<LiveChange> changes = replay.play(live, replay.from_ns() + 60 * kNsPerSecond);
  ASSERT_FALSE(changes.empty());
  for (const LiveChange& change : changes) {
    EXPECT_EQ(change.finding.attempt, 2) << change.finding.summary;
    EXPECT_EQ(change.number, 1) << change.finding.summary;
  }
}

}  // namespace
}  // namespace stalltrace::analysis
