// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/autopsy_output.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/golden_text.h"

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

TEST(AutopsyOutput, EvidenceAloneIsALineThatIsReadAgain) {
  AutopsyResult result = result_of(2);
  result.snapshots[1].ranks[1].location = "futex\nwait";
  result.context.ras.emplace_back().statements.assign(10, "statement");
  std::string line = autopsy_evidence_line(result);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  auto host = autopsy::read_result(line);
  ASSERT_TRUE(host.has_value()) << host.error().what;
  EXPECT_EQ(host->node, "gpu01");
  EXPECT_EQ(host->snapshots[1].ranks.size(), 2);
  EXPECT_EQ(host->ras.size(), 1);
  result.context.ras[0].statements.assign(200'000, "statement");
  host = autopsy::read_result(autopsy_evidence_line(result));
  ASSERT_TRUE(host.has_value()) << host.error().what;
  EXPECT_TRUE(host->ras.empty());
  EXPECT_EQ(host->problems.size(), 1);
  EXPECT_EQ(autopsy_evidence_line(result_of(20'000)), "");
}

/// A thread that waits, with one frame of Python.
stacks::ThreadStack thread_of(pid_t tid, std::string function) {
  stacks::ThreadStack thread{.tid = tid, .name = "python3", .state = 'S'};
  thread.blocked.emplace().kernel_stack = {"futex_wait", "do_futex"};
  thread.python.emplace().frames.push_back({.function = std::move(function), .file = "train.py", .line = 7});
  return thread;
}

TEST(AutopsyOutput, ThreadsAreThoseOfStacks) {
  AutopsyResult result = result_of(2);
  autopsy::RankState& rank = result.snapshots[1].ranks[0];
  rank.threads = std::make_shared<const std::vector<stacks::ThreadStack>>(
      std::vector<stacks::ThreadStack>{thread_of(1, "step"), thread_of(9, "watch")});
  rank.threads_left_out = 3;
  rank.thread_calls.emplace_back(9, autopsy::OpenCall{"MPI_Barrier", std::nullopt, autopsy::Witness::kNative});
  const std::string text = autopsy_to_json(result);
  const Json json = Json::parse(text);
  const Json& threads = json["ranks"][0]["threads"];
  ASSERT_EQ(threads.size(), 2);
  EXPECT_EQ(threads[0]["tid"], 1);
  EXPECT_EQ(threads[0]["state"], "S");
  EXPECT_EQ(threads[0]["blocked"]["kernel_stack"], Json({"futex_wait", "do_futex"}));
  EXPECT_EQ(threads[0]["python"]["frames"][0]["function"], "step");
  EXPECT_TRUE(threads[0]["call"].is_null());
  EXPECT_EQ(threads[1]["call"]["name"], "MPI_Barrier");
  EXPECT_EQ(json["ranks"][0]["threads_left_out"], 3);
  EXPECT_TRUE(json["ranks"][1]["threads"].is_null());
  EXPECT_TRUE(autopsy::read_result(text)) << "what is read again does without them";
}

TEST(AutopsyOutput, ThreadsAreTheFirstThatAreLeftOut) {
  AutopsyResult result = result_of(2);
  std::vector<stacks::ThreadStack> threads(1, thread_of(1, std::string(autopsy::kLargestResult, 'x')));
  result.snapshots[1].ranks[0].threads = std::make_shared<const std::vector<stacks::ThreadStack>>(std::move(threads));
  result.context.ras.emplace_back().statements.assign(10, "statement");
  const Json json = Json::parse(autopsy_to_json(result));
  EXPECT_TRUE(json["ranks"][0]["threads"].is_null());
  EXPECT_EQ(json["jobs"][0]["notes"].size(), 1);
  EXPECT_EQ(json["evidence"]["ras"].size(), 1);
}

/// The first line, up to the verdict.
std::string heading_of(const AutopsyResult& result) {
  const std::string text = autopsy_to_text(result, false);
  return text.substr(0, text.find(':'));
}

TEST(AutopsyOutput, AJobIsOnTheHostsThatHoldItsRanks) {
  AutopsyResult result = result_of(2);
  result.verdicts[0].ranks = 2;
  golden::expect_text(heading_of(result));
  result.context.traced["gpu02"] = {};
  golden::expect_text(heading_of(result));
  result.snapshots[1].ranks[1].node = "gpu02";
  golden::expect_text(heading_of(result));
}

}  // namespace
}  // namespace stalltrace::cli
