// SPDX-License-Identifier: Apache-2.0
// A campaign whose `lab run` is a script: the files written, the draws run again, and the handling of failures.
#include "lab/cluster/campaign/campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "tests/support/golden_text.h"

namespace stalltrace::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Campaigns : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Makes a program that records that it ran and then does `body`; $OUT is the draw's folder.
  void be(const std::string& body) {
    const std::string path = folder_ + "/program";
    std::ofstream(path) << "#!/bin/sh\nOUT=$4\nmkdir -p $OUT\necho ran >> " << folder_ << "/runs\n" << body << "\n";
    ::chmod(path.c_str(), 0755);
  }
  /// Makes a program that fails with agents and, if `alone`, works without.
  void fail_traced(bool alone) {
    be(std::string("case \"$*\" in *--no-trace*)\n") +
       (alone ? "echo '{\"run\":{\"started_ns\":0,\"ended_ns\":9,\"completed\":true},\"faults\":[]}' > "
                "$OUT/truth.json; exit 0"
              : "echo alone as well >&2; exit 1") +
       ";;\nesac\necho one >&2; echo 'stalltrace: no room; make some' >&2; exit 1");
  }
  /// A healthy run without findings, with its recording.
  void be_healthy() {
    be(R"(echo '{"run":{"started_ns":0,"ended_ns":9,"completed":true},"faults":[]}' > $OUT/truth.json
echo '{"findings":[]}' > $OUT/findings.json
touch $OUT/node0.db)");
  }
  [[nodiscard]] CampaignOptions options(int64_t runs) const {
    CampaignOptions made;
    made.runs = runs;
    made.workloads = {"nccl"};
    made.only = "healthy";
    made.out_dir = folder_ + "/out";
    made.program = folder_ + "/program";
    return made;
  }
  [[nodiscard]] int64_t runs() const {
    const std::string text = read_file(folder_ + "/runs").value_or("");
    return std::ranges::count(text, '\n');
  }

  const std::string folder_ = testing::TempDir() + "matrix_campaign_test";
};

TEST_F(Campaigns, EachDrawIsWrittenAndRecordingsOfRightOnesGo) {
  be_healthy();
  const auto results = run_campaign(options(2));
  ASSERT_TRUE(results) << results.error().what;
  ASSERT_EQ(results->size(), 2U);
  EXPECT_EQ(results->at(0).score.verdict, DrawVerdict::kRight) << results->at(0).problem;
  EXPECT_TRUE(fs::exists(folder_ + "/out/draw0001/truth.json"));
  EXPECT_FALSE(fs::exists(folder_ + "/out/draw0001/node0.db"));
  const std::string log = read_file(folder_ + "/out/draws.jsonl").value();
  EXPECT_EQ(std::ranges::count(log, '\n'), 2);
}

TEST_F(Campaigns, GoOnWhereTheyWereEnded) {
  be_healthy();
  ASSERT_TRUE(run_campaign(options(2)));
  std::ofstream(folder_ + "/out/draws.jsonl", std::ios::app) << R"({"draw":2,"sett)";  // cut short
  const auto results = run_campaign(options(3));
  ASSERT_TRUE(results) << results.error().what;
  EXPECT_EQ(results->size(), 3U);
  EXPECT_EQ(runs(), 3) << "two before, one now";
  const std::string log = read_file(folder_ + "/out/draws.jsonl").value();
  EXPECT_EQ(std::ranges::count(log, '\n'), 3);
}

TEST_F(Campaigns, ARunThatFailsOnlyWithAgentsIsWrong) {
  fail_traced(true);
  const auto results = run_campaign(options(1));
  ASSERT_TRUE(results) << results.error().what;
  EXPECT_EQ(results->at(0).score.verdict, DrawVerdict::kWrong);
  golden::expect_text(results->at(0).problem);
  EXPECT_EQ(runs(), 2) << "with agents and without";
}

TEST_F(Campaigns, ARunThatFailsOnlyWithAgentsNamesNoneOfItsFaults) {
  be(R"(case "$*" in *--no-trace*)
echo '{"run":{"started_ns":0,"ended_ns":9,"completed":true},"faults":[{"cause":"late_rank","rank":1,"link":null,"dose":{},
"injected":true,"intervals":[{"from_ns":3,"to_ns":5}]}]}' > $OUT/truth.json; exit 0;;
esac
exit 1)");
  CampaignOptions late = options(1);
  late.only = "late_rank";
  const auto results = run_campaign(late);
  ASSERT_TRUE(results) << results.error().what;
  const DrawScore& score = results->at(0).score;
  EXPECT_EQ(score.verdict, DrawVerdict::kWrong);
  ASSERT_EQ(score.faults.size(), 1U);
  EXPECT_EQ(score.faults[0].cause, "late_rank");
  EXPECT_EQ(score.faults[0].findings, 0);
}

TEST_F(Campaigns, AJobThatFailsAloneIsNobodysFault) {
  fail_traced(false);
  const auto results = run_campaign(options(1));
  ASSERT_TRUE(results) << results.error().what;
  EXPECT_EQ(results->at(0).score.verdict, DrawVerdict::kJobFailed);
  golden::expect_text(results->at(0).problem);
}

TEST_F(Campaigns, ARunThatLeavesNothingIsAResult) {
  be("exit 0");
  const CampaignOptions one = options(1);
  const auto results = run_campaign(one);
  ASSERT_TRUE(results) << results.error().what;
  golden::expect_text(results->at(0).problem, {{one.out_dir, "OUT"}});
}

TEST_F(Campaigns, AHealthyJobThatDoesNotEndIsWrongUnlessItDoesNotEndAlone) {
  const std::string truth =
      R"(echo '{"run":{"started_ns":0,"ended_ns":9,"completed":COMPLETED},"faults":[]}' > $OUT/truth.json
echo '{"findings":[]}' > $OUT/findings.json)";
  const auto with = [&](const std::string& completed) {
    std::string text = truth;
    return text.replace(text.find("COMPLETED"), 9, completed);
  };
  be("case \"$*\" in *--no-trace*)\n" + with("true") + "\n;;\n*)\n" + with("false") + "\n;;\nesac");
  EXPECT_EQ(run_campaign(options(1))->at(0).score.verdict, DrawVerdict::kWrong);
  be(with("false"));
  EXPECT_EQ(run_campaign(options(2))->at(1).score.verdict, DrawVerdict::kJobFailed);
}

TEST_F(Campaigns, DrawsOfOtherRulesAreNotContinued) {
  be_healthy();
  fs::create_directories(folder_ + "/out");
  std::ofstream(folder_ + "/out/draws.jsonl") << R"({"draw":0,"setting":"healthy","verdict":"right"})"
                                              << "\n";
  const CampaignOptions one = options(1);
  const auto results = run_campaign(one);
  ASSERT_FALSE(results);
  golden::expect_text(results.error().what, {{one.out_dir, "OUT"}});
  EXPECT_TRUE(read_file(folder_ + "/out/draws.jsonl")->contains("healthy")) << "they are kept";
}

TEST_F(Campaigns, DrawsOfAnotherProgramAreNotContinued) {
  be_healthy();
  CampaignOptions first = options(1);
  first.program_id = "0.1.0, sha256:aa";
  const auto results = run_campaign(first);
  ASSERT_TRUE(results) << results.error().what;
  EXPECT_EQ(results->at(0).program, first.program_id);
  ASSERT_TRUE(run_campaign(first)) << "the same program goes on";
  CampaignOptions other = options(2);
  other.program_id = "0.1.0, sha256:bb";
  const auto refused = run_campaign(other);
  ASSERT_FALSE(refused);
  golden::expect_text(refused.error().what, {{other.out_dir, "OUT"}});
  EXPECT_EQ(runs(), 1);
}

TEST_F(Campaigns, DrawsOfAProgramThatIsNotNamedAreNotContinued) {
  be_healthy();
  ASSERT_TRUE(run_campaign(options(1)));
  CampaignOptions named = options(2);
  named.program_id = "0.1.0, sha256:aa";
  const auto refused = run_campaign(named);
  ASSERT_FALSE(refused);
  golden::expect_text(refused.error().what, {{named.out_dir, "OUT"}});
}

TEST_F(Campaigns, AnotherCampaignsFolderIsRefused) {
  be_healthy();
  ASSERT_TRUE(run_campaign(options(1)));
  CampaignOptions other = options(1);
  other.seed = 99;
  const auto results = run_campaign(other);
  ASSERT_FALSE(results);
  golden::expect_text(results.error().what, {{other.out_dir, "OUT"}});
  EXPECT_EQ(runs(), 1);
}

}  // namespace
}  // namespace stalltrace::lab
