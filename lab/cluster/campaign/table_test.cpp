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
  made.score = {verdict, std::move(faults), std::move(false_causes)};
  made.seconds = 6;
  return made;
}

std::vector<DrawResult> campaign() {
  FaultScore reported{
      .cause = "late_rank", .reported = "late_rank", .latency_ms = 900, .cost_ms = 1000, .reported_ms = 1100};
  FaultScore costly{
      .cause = "late_rank", .reported = "late_rank", .latency_ms = 1500, .cost_ms = 1000, .reported_ms = 1300};
  FaultScore small{.cause = "late_rank", .reported = "late_rank", .latency_ms = {}, .cost_ms = 50, .reported_ms = 500};
  return {
      result(DrawKind::kHealthy, "healthy", DrawVerdict::kRight),
      result(DrawKind::kHealthy, "healthy", DrawVerdict::kWrong, {}, {"unknown"}),
      result(DrawKind::kLoud, "late_rank 80 ms", DrawVerdict::kRight, {reported}),
      result(DrawKind::kLoud, "late_rank 80 ms", DrawVerdict::kRight, {costly}),
      result(DrawKind::kLoud, "late_rank 80 ms", DrawVerdict::kFailed),
      result(DrawKind::kLoud, "packet_loss 2 %", DrawVerdict::kCostless,
             {{.cause = "packet_loss", .reported = "nothing", .latency_ms = {}, .cost_ms = 40, .reported_ms = {}}}),
      result(DrawKind::kQuiet, "late_rank 15 ms", DrawVerdict::kRight, {small}),
      result(DrawKind::kQuiet, "late_rank 15 ms", DrawVerdict::kAbstained,
             {{.cause = "late_rank", .reported = "nothing"}}),
  };
}

TEST(MatrixTable, RatesLeaveFailedAndCostlessDrawsOut) {
  const std::string table = matrix_to_markdown(campaign());
  golden::expect_text(table);
}

TEST(MatrixTable, JsonHoldsTheSame) {
  const auto root = nlohmann::json::parse(matrix_to_json(campaign()));
  EXPECT_EQ(root["schema"], 1);
  EXPECT_EQ(root["total"]["draws"], 8);
  EXPECT_EQ(root["settings"].size(), 4U);
  EXPECT_EQ(root["confusion"]["late_rank"]["nothing"], 1);
  EXPECT_EQ(root["settings"][1]["costs_within_20_percent"], 1);
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

}  // namespace
}  // namespace stalltrace::lab
