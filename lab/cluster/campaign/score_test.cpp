// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/cluster/campaign/cost.h"

namespace stalltrace::lab {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

TrueFault fault(std::string cause, int rank, std::string direction = "", std::optional<FaultLink> link = {}) {
  return {.cause = std::move(cause),
          .rank = rank,
          .link = link,
          .direction = std::move(direction),
          .intervals = {{1000 * kMs, 2000 * kMs}}};
}
ReportedFault at_rank(std::string cause, int rank) { return {.cause = std::move(cause), .culprit = rank}; }
ReportedFault at_link(std::string cause, int src, int dst) {
  return {.cause = std::move(cause), .culprit = {}, .link = FaultLink{src, dst}};
}

TEST(Names, ARankIsARank) {
  EXPECT_TRUE(names(at_rank("late_rank", 1), fault("late_rank", 1)));
  EXPECT_FALSE(names(at_rank("late_rank", 2), fault("late_rank", 1)));
  EXPECT_FALSE(names(at_rank("disk_io", 1), fault("late_rank", 1)));
  EXPECT_FALSE(names(at_link("late_rank", 0, 1), fault("late_rank", 1)));
}

TEST(Names, ALossIntoANodeIsTheNodesOrThatOfALinkIntoIt) {
  const TrueFault into = fault("packet_loss", 2, "ingress");
  EXPECT_TRUE(names(at_rank("packet_loss", 2), into));
  EXPECT_TRUE(names(at_link("packet_loss", 1, 2), into));
  EXPECT_FALSE(names(at_link("packet_loss", 2, 3), into));
  EXPECT_FALSE(names(at_rank("packet_loss", 1), into));
  EXPECT_TRUE(names(at_link("packet_loss", 2, 3), fault("packet_loss", 2, "egress")));
  EXPECT_TRUE(names(at_link("partition", 2, 3), fault("partition", 2, "both")));
  EXPECT_TRUE(names(at_link("slow_link", 2, 3), fault("slow_link", 2)));
  EXPECT_FALSE(names(at_link("slow_link", 1, 2), fault("slow_link", 2)));
  EXPECT_TRUE(names(at_link("host_drop", 2, 3), fault("host_drop", 2)));
  EXPECT_TRUE(names(at_rank("host_drop", 2), fault("host_drop", 2)));
}

TEST(Names, ALinkIsThatLinkAndNoRanksFault) {
  const TrueFault link = fault("packet_loss", 2, "link", FaultLink{1, 2});
  EXPECT_TRUE(names(at_link("packet_loss", 1, 2), link));
  EXPECT_FALSE(names(at_link("packet_loss", 2, 1), link));
  EXPECT_FALSE(names(at_rank("packet_loss", 2), link));
}

TEST(Score, HealthyMeansNoFinding) {
  EXPECT_EQ(score({}, {}, {}).verdict, DrawVerdict::kRight);
  for (const char* cause : {"late_rank", "unknown"}) {
    const DrawScore wrong = score({}, {at_rank(cause, 1)}, {});
    EXPECT_EQ(wrong.verdict, DrawVerdict::kWrong);
    EXPECT_THAT(wrong.false_causes, ElementsAre(cause));
  }
}

TEST(Score, WhatIsNoFaultIsNotToBeNamed) {
  TrueFault reordering = fault("reordering", 1);
  reordering.harmless = true;
  EXPECT_EQ(score({reordering}, {}, {}).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score({reordering}, {at_link("packet_loss", 1, 2)}, {}).verdict, DrawVerdict::kWrong);
}

TEST(Score, OneFault) {
  const std::vector<TrueFault> late = {fault("late_rank", 1)};
  EXPECT_EQ(score(late, {at_rank("late_rank", 1)}, {}).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score(late, {}, {}).verdict, DrawVerdict::kAbstained);
  EXPECT_EQ(score(late, {}, {}).faults.at(0).reported, "nothing");
  EXPECT_EQ(score(late, {at_rank("unknown", 1)}, {}).verdict, DrawVerdict::kAbstained);
  EXPECT_EQ(score(late, {at_rank("unknown", 1)}, {}).faults.at(0).reported, "unknown");
  EXPECT_EQ(score(late, {at_rank("late_rank", 1), at_rank("unknown", 1)}, {}).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score(late, {at_rank("late_rank", 2)}, {}).verdict, DrawVerdict::kWrong) << "the location";
  const DrawScore besides = score(late, {at_rank("late_rank", 1), at_link("packet_loss", 0, 1)}, {});
  EXPECT_EQ(besides.verdict, DrawVerdict::kWrong) << "right, and something false";
  EXPECT_THAT(besides.false_causes, ElementsAre("packet_loss"));
}

TEST(Score, TwoFaultsAreTwoFindings) {
  const std::vector<TrueFault> both = {fault("late_rank", 1), fault("packet_loss", 2, "link", FaultLink{1, 2})};
  const ReportedFault late = at_rank("late_rank", 1);
  const ReportedFault loss = at_link("packet_loss", 1, 2);
  EXPECT_EQ(score(both, {loss, late}, {}).verdict, DrawVerdict::kRight);
  const DrawScore half = score(both, {late}, {});
  EXPECT_EQ(half.verdict, DrawVerdict::kAbstained);
  EXPECT_THAT(half.false_causes, IsEmpty());
  EXPECT_EQ(half.faults.at(1).reported, "nothing");
}

TEST(Score, Cost) {
  ReportedFault reported = at_rank("late_rank", 1);
  reported.stall_ms = 110;
  const DrawScore scored = score({fault("late_rank", 1)}, {reported}, 100);
  EXPECT_EQ(scored.faults.at(0).cost_ms, 100);
  EXPECT_EQ(scored.faults.at(0).reported_ms, 110);
  EXPECT_FALSE(score({fault("late_rank", 1)}, {reported}, {}).faults.at(0).cost_ms);
}

TEST(Score, SilenceAboutWhatCostNothing) {
  const std::vector<TrueFault> loss = {fault("packet_loss", 1)};
  const DrawScore silent = score(loss, {}, 249);
  EXPECT_EQ(silent.verdict, DrawVerdict::kCostless);
  EXPECT_EQ(silent.faults.at(0).cost_ms, 249);
  EXPECT_EQ(score(loss, {}, 250).verdict, DrawVerdict::kAbstained);
  EXPECT_EQ(score(loss, {}, {}).verdict, DrawVerdict::kAbstained) << "what it cost is not known";
  EXPECT_EQ(score(loss, {at_rank("unknown", 1)}, 10).verdict, DrawVerdict::kAbstained);
  EXPECT_EQ(score(loss, {at_rank("late_rank", 1)}, 10).verdict, DrawVerdict::kWrong);
  EXPECT_EQ(score(loss, {at_rank("packet_loss", 1)}, 10).verdict, DrawVerdict::kRight);
}

TEST(Score, WhatWasReportedLive) {
  const std::vector<TrueFault> late = {fault("late_rank", 1)};
  ReportedFault elsewhere = at_rank("late_rank", 2);
  elsewhere.detected_ns = 1100 * kMs;
  ReportedFault second = at_rank("late_rank", 1);
  second.detected_ns = 1900 * kMs;
  ReportedFault first = at_rank("late_rank", 1);
  first.detected_ns = 1700 * kMs;
  DrawScore scored = score(late, {first}, {});
  add_live(late, {elsewhere, second, first, at_rank("unknown", 3)}, scored);
  EXPECT_EQ(scored.faults.at(0).latency_ms, 700) << "the first that named it";
  EXPECT_THAT(scored.live_false, ElementsAre("late_rank"));
  EXPECT_EQ(scored.verdict, DrawVerdict::kRight) << "the recordings' verdict is another matter";
  DrawScore healthy = score({}, {}, {});
  add_live({}, {at_rank("unknown", 3)}, healthy);
  EXPECT_THAT(healthy.live_false, ElementsAre("unknown"));
}

TEST(Reading, WhatTheLabWrites) {
  const auto truth = read_truth(R"({"schema":1,"run":{"ended_ns":9,"completed":false},"nodes":[],"faults":[
      {"cause":"packet_loss","rank":2,"link":{"src_rank":1,"dst_rank":2},"dose":{"percent":2,"direction":"link"},
       "injected":true,"intervals":[{"from_ns":3,"to_ns":5}]},
      {"cause":"late_rank","rank":0,"link":null,"dose":{"ms":80},"injected":false,"intervals":[]}]})");
  ASSERT_TRUE(truth) << truth.error().what;
  ASSERT_EQ(truth->faults.size(), 1U) << "one never began";
  EXPECT_EQ(truth->faults[0].direction, "link");
  EXPECT_EQ(truth->faults[0].link->src_rank, 1);
  EXPECT_EQ(truth->faults[0].intervals.at(0).to_ns, 5);
  EXPECT_EQ(truth->ended_ns, 9);
  const auto reported =
      read_findings(R"({"findings":[{"cause":"late_rank","culprit":{"node":"node1","rank":null,"pid":3},
      "link":null,"stall_ms":1.5,"detected_ns":7}]})");
  ASSERT_TRUE(reported) << reported.error().what;
  EXPECT_FALSE(reported->at(0).culprit);
  EXPECT_EQ(reported->at(0).detected_ns, 7);
}

TEST(Reading, AnEndWithoutARankIsKnownByItsAddress) {
  const auto reported = read_findings(R"({"findings":[
      {"cause":"packet_loss","culprit":null,"stall_ms":1,"link":{"src_rank":2,"dst_rank":null,"src":"10.77.0.3:36248",
       "dst":"10.77.0.4:55489"}},
      {"cause":"packet_loss","culprit":null,"stall_ms":1,"link":{"src_rank":null,"dst_rank":1,"src":"[fd77::1]:9",
       "dst":null}},
      {"cause":"packet_loss","culprit":null,"stall_ms":1,"link":{"src_rank":2,"dst_rank":null,"src":null,
       "dst":"192.0.2.1:5"}}]})");
  ASSERT_TRUE(reported) << reported.error().what;
  EXPECT_EQ(reported->at(0).link->dst_rank, 3);
  EXPECT_EQ(reported->at(1).link->src_rank, 0);
  EXPECT_FALSE(reported->at(2).link);
}

TEST(Reading, DamageIsAnErrorNotACrash) {
  for (const char* text : {"", "{", "[]", "{}", R"({"run":{"ended_ns":"x","completed":true},"faults":[]})"}) {
    ASSERT_FALSE(read_truth(text)) << text;
    EXPECT_EQ(read_truth(text).error().kind, ErrorKind::kCorrupt);
    EXPECT_FALSE(read_findings(text)) << text;
  }
  EXPECT_FALSE(read_findings(R"({"findings":[{"cause":"late_rank"}]})"));
}

std::vector<StepTime> steps_of(int count, int64_t length_ns) {
  std::vector<StepTime> steps;
  for (int64_t i = 0; i < count; ++i) {
    steps.push_back({i * length_ns, (i + 1) * length_ns});
  }
  return steps;
}

TEST(Cost, IsWhatStepsTookLonger) {
  std::vector<StepTime> steps = steps_of(30, 10 * kMs);
  for (int i = 20; i < 25; ++i) {
    steps.push_back({i * 100 * kMs, (i * 100 + 60) * kMs});  // 50 ms longer each
  }
  const std::vector<TimeRange> faults = {{2000 * kMs, 2500 * kMs}};
  EXPECT_DOUBLE_EQ(true_cost_ms(steps, faults, true, 0).value(), 250);
  EXPECT_DOUBLE_EQ(true_cost_ms(steps, faults, false, 3460 * kMs).value(), 250 + 990) << "and the step under way";
}

TEST(Cost, LeavesTheScatterOfHealthyStepsOut) {
  std::vector<StepTime> steps;
  for (int64_t i = 0; i < 60; ++i) {  // 10 to 14 ms, usually 12
    steps.push_back({i * 100 * kMs, (i * 100 + 10 + i % 5) * kMs});
  }
  steps[45].end_ns = steps[45].start_ns + 112 * kMs;
  EXPECT_DOUBLE_EQ(true_cost_ms(steps, std::vector<TimeRange>{{4000 * kMs, 5000 * kMs}}, true, 0).value(), 100);
}

TEST(Cost, IsUnknownWithoutHealthySteps) {
  const std::vector<TimeRange> always = {{0, 10'000 * kMs}};
  EXPECT_FALSE(true_cost_ms(steps_of(30, 10 * kMs), always, true, 0));
  EXPECT_FALSE(true_cost_ms(steps_of(12, 10 * kMs), {}, true, 0));
  EXPECT_FALSE(true_cost_ms({}, {}, false, 5));
}

TEST(Cost, ReadsWholeLinesOnly) {
  const auto steps = read_steps("{\"step\":0,\"start_ns\":5,\"end_ns\":9}\n{\"step\":1,\"start_ns\":10,\"en");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].end_ns, 9);
}

}  // namespace
}  // namespace stalltrace::lab
