// SPDX-License-Identifier: Apache-2.0
// An analysis that is made up here: a stall with a retransmission inside is a loss.
#include "lab/cluster/campaign/shift/shift_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/file.h"
#include "lab/cluster/campaign/result.h"
#include "lab/cluster/campaign/shift/shift_campaign.h"
#include "model/memory_source.h"

namespace stalltrace::lab {
namespace {

constexpr int64_t kShiftNs = 5 * kNsPerSecond;

TimeRange from_to(double from_s, double to_s) {
  return {static_cast<int64_t>(from_s * kNsPerSecond), static_cast<int64_t>(to_s * kNsPerSecond)};
}

/// One retransmission, 2 s after the start.
MemorySource with_a_loss() {
  MemorySource source;
  source.accept(TcpEvent{.event_id = 1, .node_id = 1, .timestamp_ns = 2 * kNsPerSecond});
  return source;
}

/// The stalls of a job: at the loss, 5 s later, long after, and one that lasts longer than the shift.
Result<Judgement> by_retransmissions(EventSource& source) {
  Judgement judgement{.range = from_to(0, 20)};
  for (const TimeRange window : {from_to(1.9, 2.5), from_to(6.9, 7.5), from_to(12, 12.5), from_to(6, 12)}) {
    Cause cause = Cause::kUnknown;
    ST_TRY(source.tcp_events(window, [&](const TcpEvent&) { cause = Cause::kPacketLoss; }));
    judgement.stalls.push_back({cause, window});
  }
  judgement.findings = {Cause::kPacketLoss};
  return judgement;
}

TrueFault in_effect(std::vector<TimeRange> intervals) {
  return {.cause = "slow_link", .intervals = std::move(intervals)};
}

TEST(Shift, CountsStallsThatEvidenceOfAnotherTimeExplains) {
  MemorySource source = with_a_loss();
  const auto result = shift_recording(source, {}, kShiftNs, by_retransmissions);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_FALSE(result->lasting);
  EXPECT_EQ(result->all(&CauseShift::stalls), 4);
  EXPECT_EQ(result->explained(&CauseShift::stalls), 1) << "the one at the loss";
  EXPECT_EQ(result->all(&CauseShift::judged), 2);
  EXPECT_EQ(result->explained(&CauseShift::judged), 1) << "the one 5 s after it";
  EXPECT_EQ(result->all(&CauseShift::out_of_reach), 1) << "the one at the loss, before all moved evidence";
  EXPECT_EQ(result->all(&CauseShift::apart), 1) << "the long one";
  EXPECT_EQ(result->explained(&CauseShift::apart), 1);
  const CauseShift& loss = result->causes.at(Cause::kPacketLoss);
  EXPECT_EQ(loss.findings, 1);
  EXPECT_EQ(loss.moved_findings, 1);
}

TEST(Shift, StallsOfAFaultThatLastsAreApart) {
  MemorySource source = with_a_loss();
  const auto result = shift_recording(source, {in_effect({from_to(1, 19)})}, kShiftNs, by_retransmissions);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_TRUE(result->lasting);
  EXPECT_EQ(result->all(&CauseShift::judged), 0);
  EXPECT_EQ(result->all(&CauseShift::apart), 3);
}

TEST(Shift, AFaultLastsThatMeetsItsOwnMovedEvidence) {
  EXPECT_FALSE(lasts({}, kShiftNs));
  EXPECT_FALSE(lasts({in_effect({from_to(1, 4)})}, kShiftNs));
  EXPECT_TRUE(lasts({in_effect({from_to(1, 5.5)})}, kShiftNs)) << "with what it leaves behind";
  EXPECT_FALSE(lasts({in_effect({from_to(1, 1.7), from_to(5.5, 6.2)})}, kShiftNs)) << "it comes and goes";
  TrueFault loss = in_effect({from_to(1, 19)});
  loss.cause = "packet_loss";
  EXPECT_FALSE(lasts({loss}, kShiftNs)) << "each stall has retransmissions of its own";
  TrueFault harmless = in_effect({from_to(1, 19)});
  harmless.harmless = true;
  EXPECT_FALSE(lasts({harmless}, kShiftNs)) << "it makes no stall";
}

TEST(Shift, CausesThatCallsShowAreNotFromEvidence) {
  for (const Cause cause : {Cause::kLateRank, Cause::kSlowDevice, Cause::kDeadRank, Cause::kMissingCollective,
                            Cause::kMismatchedCollective, Cause::kInitFailure, Cause::kUnknown}) {
    EXPECT_FALSE(is_from_evidence(cause)) << to_text(cause);
  }
  EXPECT_TRUE(is_from_evidence(Cause::kPacketLoss));
  EXPECT_TRUE(is_from_evidence(Cause::kCpuContention));
}

TEST(Shift, ATableHasEachCause) {
  MemorySource source = with_a_loss();
  ShiftResult result = shift_recording(source, {}, kShiftNs, by_retransmissions).value();
  const std::string table = shift_to_markdown({&result, 1}, kShiftNs);
  EXPECT_THAT(table, testing::HasSubstr("1 of 2 (50.00 %)"));
  EXPECT_THAT(table, testing::HasSubstr("| packet_loss | yes | 1 | 1 | 1 | 0 | 1 | 1 |"));
  EXPECT_THAT(table, testing::HasSubstr("| unknown | no | 3 | 1 | 0 | 1 | 0 | 0 |"));
  const std::string line = shift_to_json_line(result, kShiftNs);
  EXPECT_THAT(line, testing::HasSubstr(R"("judged":2,"explained_falsely":1,)"));
}

class ShiftedCampaigns : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A finished draw, with what it left.
  void add_draw(int64_t number, bool recording, bool truth) const {
    DrawResult result;
    result.draw.number = number;
    result.draw.setting = number % 2 == 0 ? "healthy" : "late_rank 80 ms";
    std::ofstream(folder_ + "/draws.jsonl", std::ios::app) << to_json_line(result) << "\n";
    const std::string folder = folder_ + "/draw000" + std::to_string(number);
    std::filesystem::create_directories(folder);
    if (recording) {
      std::ofstream(folder + "/node0.db") << "";
    }
    if (truth) {
      std::ofstream(folder + "/truth.json") << R"({"run":{"started_ns":0,"ended_ns":9,"completed":true},"faults":[]})";
    }
  }
  [[nodiscard]] ShiftOptions options() const {
    ShiftOptions made;
    made.out_dir = folder_;
    made.shift_ns = kShiftNs;
    return made;
  }
  static Result<std::unique_ptr<EventSource>> opened(const std::vector<std::string>& paths) {
    EXPECT_EQ(paths.size(), 1U);
    return std::make_unique<MemorySource>(with_a_loss());
  }

  const std::string folder_ = testing::TempDir() + "shift_campaign_test";
};

TEST_F(ShiftedCampaigns, JudgeTheRecordingsThatAreThere) {
  add_draw(0, true, true);
  add_draw(1, false, true);
  add_draw(2, true, false);
  int64_t seen = 0;
  ShiftOptions all = options();
  all.done = [&](const ShiftResult&) { ++seen; };
  const auto campaign = shift_campaign(all, opened, by_retransmissions);
  ASSERT_TRUE(campaign) << campaign.error().what;
  EXPECT_EQ(campaign->without_recordings, 1);
  ASSERT_EQ(campaign->results.size(), 2U);
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(campaign->results[0].draw, 0);
  EXPECT_EQ(campaign->results[0].setting, "healthy");
  EXPECT_EQ(campaign->results[0].explained(&CauseShift::judged), 1);
  EXPECT_EQ(campaign->results[1].draw, 2);
  EXPECT_FALSE(campaign->results[1].problem.empty()) << "it has no truth.json";
  EXPECT_EQ(campaign->results[1].all(&CauseShift::stalls), 0);
}

TEST_F(ShiftedCampaigns, WithoutARecordingAreAnError) {
  add_draw(0, true, true);
  add_draw(1, false, true);
  ShiftOptions late = options();
  late.only = "late_rank";
  const auto campaign = shift_campaign(late, opened, by_retransmissions);
  ASSERT_FALSE(campaign);
  EXPECT_EQ(campaign.error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace stalltrace::lab
