// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/autopsy_output.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stalltrace::cli {
namespace {

using Json = nlohmann::json;

AutopsyResult result_of(size_t ranks) {
  AutopsyResult result;
  result.context.traced["gpu01"] = {};
  result.snapshots.resize(2);
  for (autopsy::Snapshot& snapshot : result.snapshots) {
    for (size_t i = 0; i < ranks; ++i) {
      autopsy::RankState& rank = snapshot.ranks.emplace_back();
      rank.node = "gpu01";
      rank.pid = static_cast<pid_t>(i + 1);
    }
  }
  result.verdicts.emplace_back();
  return result;
}

TEST(AutopsyOutput, HasNoMoreEvidenceThanIsReadAgain) {
  AutopsyResult result = result_of(2);
  result.context.ras.emplace_back().statements.assign(10, "statement");
  Json json = Json::parse(autopsy_to_json(result));
  EXPECT_EQ(json["evidence"]["ras"].size(), 1);
  EXPECT_TRUE(json["jobs"][0]["notes"].empty());
  result.context.ras[0].statements.assign(200'000, "statement");
  const std::string without_ras = autopsy_to_json(result);
  json = Json::parse(without_ras);
  EXPECT_TRUE(json["evidence"]["ras"].empty());
  EXPECT_EQ(json["jobs"][0]["notes"].size(), 1);
  EXPECT_TRUE(autopsy::read_result(without_ras));
  json = Json::parse(autopsy_to_json(result_of(5000)));
  EXPECT_FALSE(json.contains("evidence"));
  EXPECT_EQ(json["jobs"][0]["notes"].size(), 1);
}

TEST(AutopsyOutput, AJobIsOnTheHostsThatHoldItsRanks) {
  AutopsyResult result = result_of(2);
  EXPECT_EQ(autopsy_to_text(result, false).find("on gpu01"), std::string::npos);
  result.context.traced["gpu02"] = {};
  EXPECT_NE(autopsy_to_text(result, false).find("on gpu01"), std::string::npos);
  result.snapshots[1].ranks[1].node = "gpu02";
  EXPECT_NE(autopsy_to_text(result, false).find("on 2 hosts"), std::string::npos);
}

}  // namespace
}  // namespace stalltrace::cli
