// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "autopsy/judge/judge.h"
#include "autopsy/output/autopsy_text.h"
#include "autopsy/testing/snapshots.h"
#include "base/clock.h"
#include "model/events/imported/ras_statement.h"
#include "tests/support/golden_text.h"

namespace stalltrace::autopsy {
namespace {

using testing::JobSnapshots;

/// Two answers, a second apart, in which `behind` launched one call less than the three others.
void answers(JobSnapshots& job, std::optional<int32_t> behind) {
  for (const int64_t second : {103, 104}) {
    RasAccount account{.job = "train", .address = "127.0.0.1:28028", .asked_ns = second * kNsPerSecond};
    account.report = "report of NCCL's RAS 2.28.9: 1 communicator";
    for (int32_t rank = 0; rank < 4; ++rank) {
      RasStatement statement{.hash = 0xabc, .nranks = 4, .whole_job = true, .rank = rank};
      statement.host = "10.0.0.1";
      statement.pid = 4000 + rank;
      statement.state = RasState::kRunning;
      statement.launched = {{"AllReduce", rank == behind ? 30 : 31}};
      account.statements.push_back(ras_text(statement));
    }
    job.context.ras.push_back(std::move(account));
  }
}

bool has_ras(const Finding& finding) {
  return std::ranges::any_of(finding.evidence, [](const Evidence& one) { return one.kind == "nccl_ras"; });
}

/// A communicator of all ranks in each process's memory, with 30 AllReduces in the first snapshot and 31 in the last;
/// of the rank `behind` 30 in both. `stands_still`: the last ones in both.
void remember(JobSnapshots& job, std::optional<int32_t> behind, bool stands_still = true) {
  for (int32_t rank = 0; rank < 4; ++rank) {
    stacks::NcclCommunicator one{
        .address = 0x7f0000000010, .hash = 0xabc, .rank = rank, .nranks = 4, .device = 0, .launched = {}};
    one.launched = {{"Broadcast", 2}, {"AllReduce", rank == behind ? 30 : 31}};
    job.last(rank).communicators = {one};
    one.launched.back().second = stands_still ? one.launched.back().second : 30;
    job.first(rank).communicators = {one};
  }
}

bool has_kind(const Finding& finding, std::string_view kind) {
  return std::ranges::any_of(finding.evidence, [&](const Evidence& one) { return one.kind == kind; });
}

bool has_note(const JobVerdict& verdict) {
  return std::ranges::any_of(verdict.notes,
                             [](const std::string& note) { return note.starts_with("NCCL's RAS alone"); });
}

TEST(AddRas, ARankThatIsBehindIsNamedWhereAllAreInACall) {
  JobSnapshots job(4);
  answers(job, 2);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);  // it stands in place of `unknown`
  const Finding& finding = verdict.findings[0];
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_EQ(finding.culprit->node, "host7");
  EXPECT_EQ(finding.culprit->pid, 4002);
  EXPECT_EQ(finding.stall_ms, 42'000);
  EXPECT_EQ(finding.severity, Severity::kWaiting);
}

TEST(AddRas, ItIsEvidenceOnARankThatIsBlamed) {
  JobSnapshots job(4);
  job.leaves(2);
  EXPECT_FALSE(has_ras(job.verdict().findings.at(0)));
  answers(job, 2);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_TRUE(has_ras(verdict.findings[0]));
}

TEST(AddRas, ItIsANoteWhereAnotherRankIsBlamedOrNoRankWaits) {
  JobSnapshots job(4);
  job.leaves(1);
  answers(job, 2);
  const JobVerdict blamed = job.verdict();
  ASSERT_EQ(blamed.findings.size(), 1);
  EXPECT_EQ(blamed.findings[0].culprit->rank, 1);
  EXPECT_TRUE(has_note(blamed));
  for (const int rank : {0, 1, 2, 3}) {
    job.leaves(rank);
  }
  job.last(3).call_known = false;
  const JobVerdict not_known = job.verdict();
  EXPECT_EQ(not_known.state, JobState::kNotKnown);
  EXPECT_TRUE(has_note(not_known));
}

TEST(AddRas, EqualPidsOfAnotherHostAreAnotherProcess) {
  JobSnapshots job(4);
  answers(job, 2);
  for (RasAccount& account : job.context.ras) {
    for (std::string& text : account.statements) {
      std::optional<RasStatement> statement = ras_statement_from_text(text);
      ASSERT_TRUE(statement);
      statement->whole_job = false;
      statement->host = "192.0.2.7";
      text = ras_text(*statement);
    }
  }
  const JobVerdict elsewhere = job.verdict();
  ASSERT_EQ(elsewhere.findings.size(), 1);
  ASSERT_TRUE(elsewhere.findings[0].culprit);
  EXPECT_EQ(elsewhere.findings[0].culprit->node, "192.0.2.7");
  EXPECT_FALSE(elsewhere.findings[0].culprit->rank);
  for (Snapshot& snapshot : job.snapshots()) {
    snapshot.host_addresses.emplace_back("192.0.2.7");
  }
  EXPECT_EQ(job.verdict().findings.at(0).culprit->node, "host7");
  EXPECT_EQ(job.verdict().findings.at(0).culprit->rank, 2);
}

TEST(AddRas, EqualNumbersLeaveItUnknown) {
  JobSnapshots job(4);
  answers(job, std::nullopt);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kUnknown);
  EXPECT_FALSE(verdict.notes.empty());
}

TEST(AddRas, AnotherJobsAnswersAndAJobThatGetsOnAreNotJudged) {
  JobSnapshots job(4);
  answers(job, 2);
  for (RasAccount& account : job.context.ras) {
    account.job = "other";
  }
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
  for (RasAccount& account : job.context.ras) {
    account.job = "train";
  }
  for (const int rank : {0, 1, 2, 3}) {
    for (TcpSocket& socket : job.last(rank).sockets) {
      socket.received += 1 << 20;
    }
  }
  EXPECT_TRUE(job.verdict().findings.empty());
}

TEST(AddMemory, ARankThatIsBehindIsNamedWhereAllAreInACall) {
  JobSnapshots job(4);
  remember(job, 2);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  const Finding& finding = verdict.findings[0];
  EXPECT_EQ(finding.cause, Cause::kMissingCollective);
  EXPECT_EQ(finding.culprit->rank, 2);
  EXPECT_EQ(finding.culprit->node, "host7");
  EXPECT_EQ(finding.culprit->pid, 4002);
  EXPECT_EQ(finding.op, Operation::kAllReduce);
  EXPECT_TRUE(has_kind(finding, "nccl_memory"));
  EXPECT_FALSE(has_kind(finding, "log_line"));
  std::string text = finding.summary + "\n";
  for (const Evidence& one : finding.evidence) {
    text += fmt::format("- {} ({})\n", one.text, one.kind);
  }
  for (const std::string& note : verdict.notes) {
    text += "note: " + note + "\n";
  }
  golden::expect_text(text + job_text(job.snapshots().back(), verdict));
}

TEST(AddMemory, ItIsEvidenceOnARankThatIsBlamed) {
  JobSnapshots job(4);
  job.leaves(2);
  remember(job, 2);
  const JobVerdict verdict = job.verdict();
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_TRUE(has_kind(verdict.findings[0], "nccl_memory"));
}

TEST(AddMemory, EqualNumbersLeaveItUnknown) {
  JobSnapshots job(4);
  remember(job, std::nullopt);
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
}

/// The job ran between the snapshots: the rank may be behind for a moment.
TEST(AddMemory, ARankThatLaunchedSinceIsNotBlamed) {
  JobSnapshots job(4);
  remember(job, 2);
  job.first(2).communicators[0].launched.back().second = 29;
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
}

TEST(AddMemory, ACommunicatorThatTwoProcessesContradictIsNotJudged) {
  JobSnapshots job(4);
  remember(job, 2);
  job.both(3, [](RankState& rank) { rank.communicators[0].rank = 1; });
  const JobVerdict same_rank = job.verdict();
  EXPECT_EQ(same_rank.findings.at(0).cause, Cause::kUnknown);
  EXPECT_FALSE(same_rank.notes.empty());
  remember(job, 2);
  job.both(3, [](RankState& rank) { rank.communicators[0].nranks = 8; });
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
}

TEST(AddMemory, OneProcessAloneShowsNothing) {
  JobSnapshots job(4);
  remember(job, 2);
  for (const int rank : {0, 1, 3}) {
    job.both(rank, [](RankState& state) { state.communicators.clear(); });
  }
  EXPECT_EQ(job.verdict().findings.at(0).cause, Cause::kUnknown);
}

}  // namespace
}  // namespace stalltrace::autopsy
