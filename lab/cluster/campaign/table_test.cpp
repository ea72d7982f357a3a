// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/golden_text.h"

namespace stalltrace::lab {
namespace {

DrawResult result(DrawKind kind, const std::string& setting, DrawVerdict verdict, std::vector<FaultScore> faults = {},
                  std::vector<std::string> false_causes = {}) {
  DrawResult made;
  made.draw.kind = kind;
  made.draw.setting = setting;
  made.draw.workload = "nccl";
  made.draw.arguments = {"--ranks", "4"};
  made.score.verdict = verdict;
  made.score.faults = std::move(faults);
  made.score.false_causes = std::move(false_causes);
  made.seconds = 6;
  return made;
}

std::vector<DrawResult> campaign() {
  FaultScore reported{.cause = "late_rank",
                      .reported = "late_rank",
                      .findings = 1,
                      .latency_ms = 900,
                      .cost_ms = 1000,
                      .cost_share = 0.3,
                      .reported_ms = 1100};
  FaultScore costly = reported;
  costly.latency_ms = 1500;
  costly.reported_ms = 1300;
  costly.findings = 3;
  const FaultScore small{
      .cause = "late_rank", .reported = "late_rank", .findings = 1, .cost_ms = 50, .reported_ms = 500};
  const FaultScore silent{.cause = "packet_loss", .reported = "nothing", .cost_ms = 40, .cost_share = 0.01};
  const FaultScore unseen{.cause = "packet_loss", .reported = "nothing"};
  std::vector<DrawResult> made = {
      result(DrawKind::kHealthy, "healthy", DrawVerdict::kRight),
      result(DrawKind::kHealthy, "healthy", DrawVerdict::kWrong, {}, {"unknown"}),
      result(DrawKind::kHealthy, "healthy", DrawVerdict::kWrong),
      result(DrawKind::kHealthy, "healthy", DrawVerdict::kWrong),
      result(DrawKind::kLoud, "late_rank 80 ms", DrawVerdict::kRight, {reported}),
      result(DrawKind::kLoud, "late_rank 80 ms", DrawVerdict::kRight, {costly}),
      result(DrawKind::kLoud, "late_rank 80 ms", DrawVerdict::kJobFailed),
      result(DrawKind::kLoud, "packet_loss 2 %", DrawVerdict::kCostless, {silent}),
      result(DrawKind::kQuiet, "late_rank 15 ms", DrawVerdict::kCostless, {small}),
      result(DrawKind::kQuiet, "late_rank 15 ms", DrawVerdict::kAbstained,
             {{.cause = "late_rank", .reported = "nothing"}}),
      result(DrawKind::kCombined, "two", DrawVerdict::kAbstained, {reported, unseen}),
      result(DrawKind::kCombined, "two", DrawVerdict::kWrong, {reported, unseen}, {"disk_io"}),
  };
  made[1].score.blames_innocent = true;
  made[2].problem = "lab run ended with exit code 1";
  made[3].score.live_false = {"cpu_contention"};
  made[0].score.waiting = 1;
  made[4].score.assertions = {{0.9, true}};
  made[5].score.assertions = {{0.9, true}, {0.55, true}};
  made[11].score.assertions = {{0.55, false}};
  made[6].problem = "the run ended before its fault";
  return made;
}

TEST(MatrixTable, RatesLeaveFailedJobsAndCostlessDrawsOut) {
  const std::string table = matrix_to_markdown(campaign());
  golden::expect_text(table);
}

TEST(MatrixTable, JsonHoldsTheSame) {
  const auto root = nlohmann::json::parse(matrix_to_json(campaign()));
  EXPECT_EQ(root["schema"], 2);
  EXPECT_EQ(root["rules"], kScoringRules);
  EXPECT_EQ(root["total"]["draws"], 12);
  EXPECT_EQ(root["total"]["job_failed"], 1);
  EXPECT_EQ(root["settings"].size(), 5U);
  EXPECT_EQ(root["confusion"]["late_rank"]["nothing"], 1);
  EXPECT_EQ(root["settings"][1]["costs_within_20_percent"], 1);
}

TEST(MatrixTable, NamesTheProgram) {
  std::vector<DrawResult> results = campaign();
  for (DrawResult& one : results) {
    one.program = "0.1.0, sha256:aa";
  }
  EXPECT_THAT(matrix_to_markdown(results), testing::HasSubstr("0.1.0, sha256:aa"));
  EXPECT_EQ(nlohmann::json::parse(matrix_to_json(results))["program"], "0.1.0, sha256:aa");
}

TEST(MatrixTable, EachWrongDrawHasOneReason) {
  const auto total = nlohmann::json::parse(matrix_to_json(campaign()))["total"];
  EXPECT_EQ(total["wrong"], 4);
  EXPECT_EQ(total["failed_traced"], 1);
  EXPECT_EQ(total["innocent_blamed"], 1);
  EXPECT_EQ(total["wrong_live_only"], 1);
  EXPECT_EQ(total["other_cause"], 1);
}

TEST(MatrixTable, CountsDuplicatesCostlessAndWaitingApart) {
  const auto total = nlohmann::json::parse(matrix_to_json(campaign()))["total"];
  EXPECT_EQ(total["duplicates"], 2);
  EXPECT_EQ(total["costless"], 2);
  EXPECT_EQ(total["costless_named"], 1);
  EXPECT_EQ(total["draws_waiting"], 1);
}

TEST(MatrixTable, CountsEachOfTwoFaultsByItself) {
  const auto settings = nlohmann::json::parse(matrix_to_json(campaign()))["settings"];
  const auto& faults = settings.back()["faults"];
  EXPECT_EQ(settings.back()["setting"], "two");
  EXPECT_EQ(faults[0]["cause"], "late_rank");
  EXPECT_EQ(faults[0]["named"], 2);
  EXPECT_EQ(faults[1]["cause"], "packet_loss");
  EXPECT_EQ(faults[1]["named"], 0);
  EXPECT_EQ(faults[1]["injected"], 2);
}

TEST(MatrixTable, ShowsWhetherConfidenceMeansWhatItSays) {
  const auto confidence = nlohmann::json::parse(matrix_to_json(campaign()))["confidence"];
  EXPECT_EQ(confidence["bins"].size(), Reliability::kBins);
  EXPECT_EQ(confidence["bins"][5]["findings"], 2);
  EXPECT_EQ(confidence["bins"][5]["correct"], 1);
  EXPECT_TRUE(confidence["bins"][0]["mean_confidence"].is_null());
  EXPECT_NEAR(confidence["brier"], (2 * 0.1 * 0.1 + 0.45 * 0.45 + 0.55 * 0.55) / 4, 1e-9);
}

TEST(DrawResults, SurviveTheRoundTrip) {
  for (const DrawResult& made : campaign()) {
    const auto read = draw_result_from_json(to_json_line(made));
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(to_json_line(*read), to_json_line(made));
  }
  for (const char* damaged : {"", "{", "[]", "{}", R"({"draw":"x"})"}) {
    const auto read = draw_result_from_json(damaged);
    ASSERT_FALSE(read) << damaged;
    EXPECT_EQ(read.error().kind, ErrorKind::kCorrupt);
  }
}

TEST(DrawResults, OfOtherRulesAreRefused) {
  const auto read = draw_result_from_json(R"({"draw":0,"setting":"healthy","verdict":"right"})");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace stalltrace::lab
