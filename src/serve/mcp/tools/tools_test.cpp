// SPDX-License-Identifier: Apache-2.0
// Tools on small jobs whose truth is known: verdicts. ServedJob::ask compares each answer with the tool's output
// schema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/finding_ids.h"
#include "serve/mcp/tools/testing/tool_jobs.h"
#include "tests/support/golden_text.h"

namespace stalltrace::serve::mcp {
namespace {

using testing::HasSubstr;

TEST(Health, SaysWhatWasRecorded) {
  ServedJob job = served({});
  const Json health = job.ask("health");
  EXPECT_EQ(at(health, "healthy"), Json("yes"));
  EXPECT_EQ(at(health, "ranks"), Json(4));
  EXPECT_EQ(at(health, "collectives"), Json(400));
  EXPECT_EQ(at(health, "total"), Json(4));
  EXPECT_EQ(at(health, "recordings.0.recording"), Json("job.db"));
  EXPECT_EQ(at(health, "recordings.0.being_written"), Json(false));
  EXPECT_EQ(at(health, "nodes.2.node.recorded_text"), Json("node2"));
  EXPECT_EQ(at(health, "nodes.2.ranks"), Json(1));
  EXPECT_EQ(at(health, "next.0.tool"), Json("slowest"));
  EXPECT_EQ(at(job.ask("health", R"({"limit":1})"), "truncated"), Json(true));
}

TEST(Health, AJobWithUnrecordedRanksIsNotKnownToBeHealthy) {
  Ending ending;
  ending.call = [](int rank, int64_t /*step*/, Collective&) { return rank != 3; };
  ending.process = [](int rank, Process& process) { process.rank = rank == 3 ? std::nullopt : std::optional(rank); };
  const Json health = served(ending).ask("health");
  EXPECT_EQ(at(health, "healthy"), Json("not_known"));
  golden::expect_text(at(health, "notes").dump());
}

TEST(Health, NamesTheRecordingThatCannotBeRead) {
  MemorySource source;
  fill(source, {});
  ServedJob job(source);
  const std::string size = std::to_string(std::filesystem::file_size(job.path()));  // grows with the number of tables
  std::filesystem::resize_file(job.path(), 5000);
  const Json health = job.ask("health");
  EXPECT_EQ(at(health, "healthy"), Json("not_known"));
  golden::expect_text(*at(health, "recordings.0.problem.report_text").text(),
                      {{job.path(), "RECORDING"}, {size, "SIZE"}});
}

TEST(Health, ARecordingWithoutCollectivesHasNoVerdict) {
  MemorySource source;
  describe(source, {});
  ServedJob job(source);
  EXPECT_EQ(at(job.ask("health"), "healthy"), Json("not_known"));
  for (const char* tool : {"findings", "slowest", "who_waits", "ranks", "links", "stacks"}) {
    EXPECT_EQ(at(job.ask(tool), "total"), Json(0)) << tool;
  }
}

TEST(Findings, NameTheLateRankAndLeadToItsEvidence) {
  ServedJob job = served(late_job());
  const Json findings = job.ask("findings");
  EXPECT_EQ(at(findings, "total"), Json(1));
  EXPECT_EQ(at(findings, "findings.0.cause"), Json("late_rank"));
  EXPECT_EQ(at(findings, "healthy"), Json("no"));
  const std::string id = at(findings, "next.0.arguments").dump();
  const Json finding = job.ask("finding", id);
  EXPECT_EQ(at(finding, "culprit.rank"), Json(1));
  EXPECT_EQ(at(finding, "instances_affected"), Json(80));
  EXPECT_EQ(at(finding, "next.0.tool"), Json("why"));
  const Json why = job.ask("why", at(finding, "next.0.arguments").dump());
  EXPECT_EQ(at(why, "is_stall"), Json(true));
  EXPECT_EQ(at(why, "parts.0.finding"), at(finding, "id"));
  const Json list = at(finding, "next");
  for (const Json& hint : *list.values()) {
    EXPECT_NE(job.ask(*at(hint, "tool").text(), at(hint, "arguments").dump()).size(), 0U);
  }
}

TEST(Findings, AreFiltered) {
  ServedJob job = served(late_job());
  EXPECT_EQ(at(job.ask("findings", R"({"rank":1})"), "total"), Json(1));
  EXPECT_EQ(at(job.ask("findings", R"({"rank":2})"), "total"), Json(0));
  EXPECT_EQ(at(job.ask("findings", R"({"cause":"disk_io"})"), "total"), Json(0));
  EXPECT_EQ(at(job.ask("findings", R"({"to":"+900ms"})"), "total"), Json(0));
  golden::expect_text(job.failure_of("findings", R"({"from":"yesterday"})"));
  golden::expect_text(job.failure_of("findings", R"({"from":"+20000s"})"));
#define STALLTRACE_LISTED(enumerator, name) ", " name
  const std::string causes = std::string(STALLTRACE_CAUSES(STALLTRACE_LISTED)).substr(2);
#undef STALLTRACE_LISTED
  golden::expect_text(job.failure_of("findings", R"({"cause":"gremlins"})"), {{causes, "CAUSES"}});
  golden::expect_text(job.failure_of("findings", R"({"limit":0})"));
  golden::expect_text(job.failure_of("finding", R"({"id":"late_rank-00000000"})"));
}

TEST(Findings, IdsLastWhileTheRecordingGrows) {
  Finding finding{.cause = Cause::kLateRank, .culprit = Culprit{"node1", 1, 11}};
  const std::vector<std::string> before = finding_ids({finding});
  finding.stall_ms = 5000;
  finding.window = {5, 7};
  finding.summary = "longer";
  Finding other = finding;
  other.culprit->rank = 2;
  const std::vector<std::string> after = finding_ids({other, finding, finding});
  EXPECT_EQ(after[1], before[0]);
  EXPECT_NE(after[0], before[0]);
  EXPECT_EQ(after[2], before[0] + "-2");
  EXPECT_THAT(before[0], testing::StartsWith("late_rank-"));
}

TEST(Why, ExplainsAnInstanceThatIsNoStall) {
  ServedJob job = served({});
  const Json why = job.ask("why", R"({"event":"node2:50"})");
  EXPECT_EQ(at(why, "is_stall"), Json(false));
  EXPECT_EQ(at(why, "calls_total"), Json(4));
  EXPECT_EQ(at(why, "size_bytes"), Json(1 << 20));
  EXPECT_EQ(job.ask("why", R"({"event":"3:50"})"), why);  // by number: the same call
  EXPECT_THAT(job.failure_of("why", R"({"event":"node2:999999"})"), HasSubstr("Failed"));
  golden::expect_text(job.failure_of("why", R"({"event":"nowhere:1"})"));
  golden::expect_text(job.failure_of("why", R"({"event":""})"));
  golden::expect_text(job.failure_of("why", "{}"));
}

TEST(Slowest, OrdersByWhatWasAskedFor) {
  ServedJob job = served(late_job(99));
  const Json late = job.ask("slowest", R"({"by":"wait_for_last_rank","limit":3})");
  EXPECT_EQ(at(late, "instances.0.number"), Json(99));
  EXPECT_EQ(at(late, "instances.0.wait_for_last_rank_ms"),
            Json(30.0 - 0.1));  // rank 2, the middle of the others: 0.2 ms
  EXPECT_EQ(at(late, "instances.0.last_rank.rank"), Json(1));
  EXPECT_EQ(at(late, "total"), Json(100));
  EXPECT_EQ(at(late, "truncated"), Json(true));
  const Json next = job.ask("slowest", R"({"by":"wait_for_last_rank","limit":3,"offset":99})");
  EXPECT_EQ(at(next, "instances").size(), 1U);
  EXPECT_EQ(at(next, "truncated"), Json(false));
  EXPECT_EQ(at(job.ask("slowest", R"({"by":"transfer"})"), "instances.0.transfer_ms"), Json(5.2));
  EXPECT_EQ(at(job.ask("slowest", R"({"last_rank":1})"), "total"), Json(1));
  EXPECT_EQ(at(job.ask("slowest", R"({"offset":5000})"), "total"), Json(100));
  EXPECT_EQ(at(job.ask("slowest", R"({"op":"ALL_GATHER"})"), "total"), Json(0));
  EXPECT_EQ(at(job.ask("slowest", R"({"communicator":"0x000000000000004d"})"), "total"), Json(100));
  EXPECT_EQ(at(job.ask("slowest", R"({"communicator":"0x4e"})"), "total"), Json(0));
  golden::expect_text(job.failure_of("slowest", R"({"communicator":"77 or 1"})"));
  EXPECT_EQ(at(job.ask("slowest", R"({"from":"+1s","to":"+2s"})"), "total"), Json(20));
  golden::expect_text(job.failure_of("slowest", R"({"from":"+2s","to":"+1s"})"));
}

TEST(Findings, LeadToTheMiddleOfTheLongestStall) {
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    call.timestamp_ns += step > 50 ? kNsPerSecond : 0;
    if (step == 50) {
      call.timestamp_ns += rank == 1 ? 500 * kNsPerMs : 0;
      call.duration_ns = 5 * kNsPerMs + (rank == 1 ? 0 : 500 * kNsPerMs);
    }
    return true;
  };
  ServedJob job = served(ending);
  const Json finding = job.ask("finding", at(job.ask("findings"), "next.0.arguments").dump());
  const Json list = at(finding, "next");
  const Json& last = list.values()->back();
  ASSERT_EQ(at(last, "tool"), Json("who_waits"));
  const Json waits = job.ask("who_waits", at(last, "arguments").dump());
  EXPECT_NEAR(at(waits, "time.at_s").number(), 2.75, 0.01);
  EXPECT_EQ(at(waits, "held_up_by.0.rank"), Json(1));
}

/// Copies in a file, beside one node that is missing.
class CopiesOfSome final : public Recordings {
 public:
  explicit CopiesOfSome(const std::string& path)
      : files_(recordings_in_files({path}, {"1 of 2 nodes that were asked did not answer: b:1 (late)"})) {}
  [[nodiscard]] bool are_copies() const override { return true; }
  Result<const Gathered*> gather(bool /*again*/) override { return &gathered_; }
  std::vector<Info> list() override { return files_->list(); }
  Result<std::shared_ptr<Snapshot>> snapshot(std::string_view name) override { return files_->snapshot(name); }
  Result<std::shared_ptr<Snapshot>> own_snapshot(std::string_view name) override { return files_->own_snapshot(name); }
  Status query(std::string_view name, std::string_view sql, const QueryEnd& end, RowSink& sink) override {
    return files_->query(name, sql, end, sink);
  }
  Result<UniqueFd> open_copy(std::string_view name, const std::string& folder) override {
    return files_->open_copy(name, folder);
  }

 private:
  std::unique_ptr<Recordings> files_;
  Gathered gathered_{.asked_ns = 1, .nodes = 2, .missing = {{"b:1", "late"}}};
};

TEST(Tools, WithANodeMissingTheJobIsNotCalledHealthy) {
  ServedJob job = served({});
  CopiesOfSome copies(job.path());
  Server server(copies);
  Session session{.legacy_version = "2025-11-25"};
  for (const char* tool : {"health", "findings"}) {
    const Json params = Json::object({{"name", tool}, {"arguments", Json::object({})}});
    const auto answer = server.answer({.id = Json(1), .method = "tools/call", .params = params}, session);
    ASSERT_TRUE(answer);
    EXPECT_EQ(at(*answer, "result.structuredContent.healthy"), Json("not_known")) << tool;
  }
  const Json params = Json::object({{"name", "health"}, {"arguments", Json::object({})}});
  const auto health = server.answer({.id = Json(1), .method = "tools/call", .params = params}, session);
  ASSERT_TRUE(health);
  EXPECT_NE(at(*health, "result.structuredContent.notes.0").dump().find("b:1"), std::string::npos);
}

}  // namespace
}  // namespace stalltrace::serve::mcp
