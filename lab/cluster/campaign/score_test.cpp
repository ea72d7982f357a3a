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
  std::vector<int> src_ranks;
  std::vector<int> dst_ranks;
  if (link) {
    src_ranks = {link->src_rank};
    dst_ranks = {link->dst_rank};
  }
  return {.cause = std::move(cause),
          .rank = rank,
          .link = link,
          .direction = std::move(direction),
          .node_ranks = {rank},
          .src_ranks = src_ranks,
          .dst_ranks = dst_ranks,
          .intervals = {{10'000 * kMs, 12'000 * kMs}}};
}
constexpr TimeRange kThen{10'100 * kMs, 11'000 * kMs};
ReportedFault at_rank(std::string cause, int rank) {
  return {.cause = std::move(cause), .culprit = rank, .accuses = true, .window = kThen};
}
ReportedFault at_link(std::string cause, int src, int dst) {
  return {.cause = std::move(cause), .link = FaultLink{src, dst}, .accuses = true, .window = kThen};
}
ReportedFault nowhere(std::string cause) { return {.cause = std::move(cause), .window = kThen}; }
ReportedFault at_time(ReportedFault finding, int64_t from_ms, int64_t to_ms) {
  finding.window = {from_ms * kMs, to_ms * kMs};
  return finding;
}
ReportedFault with_confidence(ReportedFault finding, double confidence) {
  finding.confidence = confidence;
  return finding;
}
ReportedFault waiting(ReportedFault finding) {
  finding.waiting = true;
  return finding;
}

/// Of a job of a minute, whose causes have no gate.
DrawScore score(const std::vector<TrueFault>& faults, const std::vector<ReportedFault>& reported,
                std::optional<double> cost_ms, bool completed = true) {
  const TruthRead truth{.faults = faults, .ended_ns = 60 * kNsPerSecond, .completed = completed};
  const auto cost = cost_ms ? std::optional(TrueCost{.ms = *cost_ms, .single_ms = *cost_ms}) : std::nullopt;
  return score(truth, reported, cost, {});
}

TEST(Truths, NoRankIsToBlameForAFaultOfTheWholeJob) {
  const auto truth =
      read_truth(R"({"run":{"started_ns":0,"ended_ns":9,"completed":true},"nodes":[{"node":"node0","rank":0}],"faults":[
{"cause":"slow_input","rank":0,"link":null,"dose":{"ms":80},"injected":true,
"intervals":[{"from_ns":10000000000,"to_ns":12000000000}]}]})");
  ASSERT_TRUE(truth) << truth.error().what;
  EXPECT_FALSE(truth->faults.at(0).catalogued);
  EXPECT_EQ(score(truth->faults, {}, {}).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score(truth->faults, {nowhere("unknown")}, {}).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score(truth->faults, {at_rank("unknown", 0)}, {}).verdict, DrawVerdict::kWrong);
  EXPECT_EQ(score(truth->faults, {at_rank("late_rank", 0)}, {}).verdict, DrawVerdict::kWrong);
}

TEST(Names, ALinkOfWhichTheDirectionIsNotKnownIsThatOfEitherDirection) {
  ReportedFault either = at_link("partition", 2, 1);
  EXPECT_FALSE(names(either, fault("partition", 2, "", FaultLink{1, 2})));
  either.either_way = true;
  EXPECT_TRUE(names(either, fault("partition", 2, "", FaultLink{1, 2})));
  EXPECT_TRUE(names(either, fault("partition", 2, "", FaultLink{2, 1})));
  EXPECT_FALSE(names(either, fault("partition", 2, "", FaultLink{0, 1})));
  EXPECT_FALSE(names(either, fault("partition", 1)));
  const auto read = read_findings(R"({"findings":[{"cause":"partition","culprit":null,"severity":"critical",
      "confidence":0.9,"window":{"from_ns":4,"to_ns":6},"link":{"src_rank":2,"dst_rank":1},"stall_ms":1.5,
      "evidence":[{"kind":"tcp_sample"},{"kind":"direction_not_known"}]}]})");
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_TRUE(read->at(0).either_way);
}

TEST(Names, ARankIsARank) {
  EXPECT_TRUE(names(at_rank("late_rank", 1), fault("late_rank", 1)));
  EXPECT_FALSE(names(at_rank("late_rank", 2), fault("late_rank", 1)));
  EXPECT_FALSE(names(at_rank("disk_io", 1), fault("late_rank", 1)));
  EXPECT_FALSE(names(at_link("late_rank", 0, 1), fault("late_rank", 1)));
  EXPECT_TRUE(names(at_rank("slow_device", 1), fault("slow_device", 1)));
  EXPECT_FALSE(names(at_rank("late_rank", 1), fault("slow_device", 1))) << "its CPU is not to blame";
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
  ReportedFault node = at_link("packet_loss", 1, 2);
  node.node = "node2";
  EXPECT_FALSE(names(node, link)) << "the node is blamed, with a link as an example";
}

TEST(Names, AFindingOfAnotherTimeIsAboutSomethingElse) {
  const TrueFault late = fault("late_rank", 1);
  const ReportedFault finding = at_rank("late_rank", 1);
  EXPECT_TRUE(names(at_time(finding, 11'900, 30'000), late)) << "it began during the fault";
  EXPECT_TRUE(names(at_time(finding, 1'000, 10'000), late));
  EXPECT_TRUE(names(at_time(finding, 13'000, 14'000), late)) << "within the slack";
  EXPECT_FALSE(names(at_time(finding, 13'001, 14'000), late));
  EXPECT_TRUE(names(at_time(finding, 8'000, 9'000), late));
  EXPECT_FALSE(names(at_time(finding, 8'000, 8'999), late));
}

TEST(Names, APulseOfAFaultThatComesAndGoesIsItsTime) {
  TrueFault pulses = fault("late_rank", 1);
  pulses.intervals = {{10'000 * kMs, 10'500 * kMs}, {20'000 * kMs, 20'500 * kMs}};
  EXPECT_TRUE(names(at_time(at_rank("late_rank", 1), 20'100, 20'200), pulses));
  EXPECT_FALSE(names(at_time(at_rank("late_rank", 1), 15'000, 16'000), pulses)) << "between them";
}

TEST(Names, ANodesFaultIsTheNodesWithAnyOfItsRanks) {
  TrueFault slow = fault("slow_link", 5);
  slow.node = "node1";
  slow.node_ranks = {4, 5, 6, 7};
  ReportedFault node = at_rank("slow_link", 0);
  node.culprit.reset();
  node.node = "node1";
  EXPECT_TRUE(names(node, slow));
  node.node = "node2";
  EXPECT_FALSE(names(node, slow));
  EXPECT_TRUE(names(at_rank("slow_link", 6), slow));
  EXPECT_FALSE(names(at_rank("slow_link", 3), slow));
  EXPECT_TRUE(names(at_link("slow_link", 7, 8), slow));
  EXPECT_FALSE(names(at_link("slow_link", 3, 4), slow));
  TrueFault late = slow;
  late.cause = "late_rank";
  EXPECT_FALSE(names(at_rank("late_rank", 6), late)) << "of a rank, it is that rank's";
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

TEST(Score, WaitingAssertsNoFault) {
  const DrawScore healthy = score({}, {waiting(at_rank("missing_collective", 1))}, {});
  EXPECT_EQ(healthy.verdict, DrawVerdict::kRight);
  EXPECT_EQ(healthy.waiting, 1);
  const std::vector<TrueFault> missing = {fault("missing_collective", 1)};
  EXPECT_EQ(score(missing, {waiting(at_rank("missing_collective", 2))}, {}).verdict, DrawVerdict::kAbstained);
  const DrawScore named = score(missing, {waiting(at_rank("missing_collective", 1))}, {});
  EXPECT_EQ(named.verdict, DrawVerdict::kRight);
  EXPECT_EQ(named.waiting, 0);
  EXPECT_THAT(named.assertions, IsEmpty());
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

/// Without the profiler plugin nothing shows when a device began.
TEST(Score, ASlowDeviceMayStayUnknownAndIsNoOtherFault) {
  const std::vector<TrueFault> slow = {fault("slow_device", 1)};
  EXPECT_EQ(score(slow, {at_rank("slow_device", 1)}, 2000).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score(slow, {}, 2000).verdict, DrawVerdict::kAbstained);
  EXPECT_EQ(score(slow, {nowhere("unknown")}, 2000).verdict, DrawVerdict::kAbstained);
  for (const char* other : {"late_rank", "slow_receiver"}) {
    const DrawScore wrong = score(slow, {at_rank(other, 1)}, 2000);
    EXPECT_EQ(wrong.verdict, DrawVerdict::kWrong) << other;
    EXPECT_FALSE(wrong.blames_innocent) << other;
  }
}

TEST(Score, UnknownThatAccusesAnInnocentIsFalse) {
  const std::vector<TrueFault> late = {fault("late_rank", 1)};
  const ReportedFault right = at_rank("late_rank", 1);
  for (const ReportedFault& elsewhere :
       {at_rank("unknown", 2), at_link("unknown", 2, 3), at_time(at_rank("unknown", 1), 1'000, 2'000)}) {
    const DrawScore wrong = score(late, {right, elsewhere}, {});
    EXPECT_EQ(wrong.verdict, DrawVerdict::kWrong);
    EXPECT_THAT(wrong.false_causes, ElementsAre("unknown"));
    EXPECT_TRUE(wrong.blames_innocent);
  }
  EXPECT_EQ(score(late, {right, nowhere("unknown")}, {}).verdict, DrawVerdict::kRight) << "it accuses no rank";
  EXPECT_EQ(score(late, {nowhere("unknown")}, {}).verdict, DrawVerdict::kAbstained);
  ReportedFault outside = nowhere("unknown");
  outside.accuses = true;
  EXPECT_EQ(score(late, {outside}, {}).verdict, DrawVerdict::kWrong) << "a link with an end that is not known";
}

TEST(Score, ACauseWithoutALocationIsNotNaming) {
  const std::vector<TrueFault> late = {fault("late_rank", 1)};
  EXPECT_EQ(score(late, {nowhere("late_rank")}, {}).verdict, DrawVerdict::kAbstained);
  EXPECT_EQ(score(late, {nowhere("late_rank")}, {}).faults.at(0).reported, "late_rank");
  EXPECT_EQ(score(late, {nowhere("late_rank")}, {}).faults.at(0).findings, 0);
  EXPECT_EQ(score(late, {nowhere("packet_loss")}, {}).verdict, DrawVerdict::kWrong);
  EXPECT_EQ(score(late, {at_time(nowhere("late_rank"), 1'000, 2'000)}, {}).verdict, DrawVerdict::kWrong);
}

TEST(Score, AnotherTimeIsFalse) {
  const std::vector<TrueFault> late = {fault("late_rank", 1)};
  const DrawScore early = score(late, {at_time(at_rank("late_rank", 1), 1'000, 2'000)}, {});
  EXPECT_EQ(early.verdict, DrawVerdict::kWrong);
  EXPECT_EQ(early.faults.at(0).findings, 0);
}

TEST(Score, AnotherCauseAtTheRightLocationBlamesNoInnocent) {
  const std::vector<TrueFault> late = {fault("late_rank", 1)};
  const DrawScore cause = score(late, {at_rank("disk_io", 1)}, {});
  EXPECT_EQ(cause.verdict, DrawVerdict::kWrong);
  EXPECT_FALSE(cause.blames_innocent);
  EXPECT_TRUE(score(late, {at_rank("disk_io", 2)}, {}).blames_innocent);
}

TEST(Score, DuplicatesAreCounted) {
  const std::vector<TrueFault> loss = {fault("packet_loss", 1, "ingress")};
  const DrawScore twice = score(loss, {at_rank("packet_loss", 1), at_link("packet_loss", 0, 1)}, {});
  EXPECT_EQ(twice.verdict, DrawVerdict::kRight);
  EXPECT_EQ(twice.faults.at(0).findings, 2);
  EXPECT_EQ(twice.faults.at(0).duplicates(), 1);
  EXPECT_EQ(score(loss, {at_rank("packet_loss", 1)}, {}).faults.at(0).duplicates(), 0);
  EXPECT_EQ(score(loss, {}, {}).faults.at(0).duplicates(), 0);
}

TEST(Score, ConfidenceOfWhatIsAsserted) {
  const std::vector<TrueFault> late = {fault("late_rank", 1)};
  const DrawScore scored =
      score(late,
            {with_confidence(at_rank("late_rank", 1), 0.9), with_confidence(at_link("packet_loss", 0, 1), 0.6),
             at_rank("unknown", 1), waiting(at_rank("dead_rank", 2)), nowhere("late_rank")},
            {});
  ASSERT_EQ(scored.assertions.size(), 2U) << "unknown, waiting and without a location assert nothing";
  EXPECT_EQ(scored.assertions[0].confidence, 0.9);
  EXPECT_TRUE(scored.assertions[0].correct);
  EXPECT_FALSE(scored.assertions[1].correct);
  EXPECT_FALSE(score({}, {at_rank("late_rank", 1)}, {}).assertions.at(0).correct) << "of a healthy job";
}

TEST(Score, WhatNoCauseDescribesIsUnknownOrNotReported) {
  TrueFault odd = fault("clock_step", 1);
  odd.catalogued = false;
  EXPECT_EQ(score({odd}, {}, {}).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score({odd}, {}, 10).verdict, DrawVerdict::kRight) << "whatever it cost";
  EXPECT_EQ(score({odd}, {at_rank("unknown", 1)}, {}).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score({odd}, {nowhere("unknown")}, {}).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score({odd}, {at_rank("unknown", 2)}, {}).verdict, DrawVerdict::kWrong);
  const DrawScore guessed = score({odd}, {at_rank("late_rank", 1)}, {});
  EXPECT_EQ(guessed.verdict, DrawVerdict::kWrong);
  EXPECT_FALSE(guessed.assertions.at(0).correct);
}

TEST(Score, TwoFaultsAreTwoFindings) {
  const std::vector<TrueFault> both = {fault("late_rank", 1), fault("packet_loss", 2, "link", FaultLink{1, 2})};
  const ReportedFault late = at_rank("late_rank", 1);
  const ReportedFault loss = at_link("packet_loss", 1, 2);
  EXPECT_EQ(score(both, {loss, late}, {}).verdict, DrawVerdict::kRight);
  const DrawScore half = score(both, {late}, {});
  EXPECT_EQ(half.verdict, DrawVerdict::kAbstained);
  EXPECT_THAT(half.false_causes, IsEmpty());
  EXPECT_EQ(half.faults.at(0).findings, 1) << "each fault by itself";
  EXPECT_EQ(half.faults.at(1).findings, 0);
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

TEST(Score, WhatCostNothingIsCostlessNamedOrNot) {
  const std::vector<TrueFault> loss = {fault("packet_loss", 1, "ingress")};
  const DrawScore silent = score(loss, {}, 249);
  EXPECT_EQ(silent.verdict, DrawVerdict::kCostless);
  EXPECT_EQ(silent.faults.at(0).cost_ms, 249);
  const DrawScore named = score(loss, {at_rank("packet_loss", 1)}, 249);
  EXPECT_EQ(named.verdict, DrawVerdict::kCostless) << "naming gains no more than silence";
  EXPECT_EQ(named.faults.at(0).findings, 1);
  EXPECT_EQ(score(loss, {at_rank("unknown", 1)}, 10).verdict, DrawVerdict::kCostless);
  EXPECT_EQ(score(loss, {at_rank("late_rank", 1)}, 10).verdict, DrawVerdict::kWrong);
  EXPECT_EQ(score(loss, {}, 250).verdict, DrawVerdict::kAbstained);
  EXPECT_EQ(score(loss, {at_rank("packet_loss", 1)}, 250).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score(loss, {}, {}).verdict, DrawVerdict::kAbstained) << "what it cost is not known";
}

/// 10 % of the 20 s from its beginning to its end; the analysis reports no less.
TEST(Score, WhatCostLessThanAFindingNeedsIsCostless) {
  TrueFault slow = fault("slow_link", 1);
  slow.intervals = {{10'000 * kMs, 30'000 * kMs}};
  const TruthRead truth{.faults = {slow}, .ended_ns = 60 * kNsPerSecond, .completed = true};
  const auto verdict = [&](double ms, double single_ms) {
    const GateOf gate_of = [](std::string_view cause) {
      return cause == "slow_link" ? CostGate{kNsPerSecond / 2, kNsPerSecond / 2, 0.1, 10 * kNsPerSecond} : CostGate{};
    };
    return score(truth, {}, TrueCost{.ms = ms, .single_ms = single_ms}, gate_of).verdict;
  };
  EXPECT_EQ(verdict(1900, 100), DrawVerdict::kCostless);
  EXPECT_EQ(verdict(2100, 100), DrawVerdict::kAbstained);
  EXPECT_EQ(verdict(1900, 600), DrawVerdict::kAbstained) << "one of its losses is a finding by itself";
}

/// A rank died, and the others ended at once.
TEST(Score, WhatEndedTheJobIsNotCostless) {
  const std::vector<TrueFault> dead = {fault("dead_rank", 1)};
  EXPECT_EQ(score(dead, {at_rank("dead_rank", 1)}, 90, false).verdict, DrawVerdict::kRight);
  EXPECT_EQ(score(dead, {}, 90, false).verdict, DrawVerdict::kAbstained);
  EXPECT_EQ(score(dead, {}, 90, false).faults.at(0).cost_ms, 90);
  EXPECT_EQ(score(dead, {}, 90, true).verdict, DrawVerdict::kCostless);
}

TEST(Score, WhatWasReportedLive) {
  const std::vector<TrueFault> late = {fault("late_rank", 1)};
  ReportedFault second = at_rank("late_rank", 1);
  second.detected_ns = 11'900 * kMs;
  ReportedFault first = at_rank("late_rank", 1);
  first.detected_ns = 10'700 * kMs;
  DrawScore right = score(late, {first}, {});
  add_live(late, {second, first, nowhere("unknown"), waiting(at_rank("dead_rank", 3))}, right);
  EXPECT_EQ(right.faults.at(0).latency_ms, 700) << "the first that named it";
  EXPECT_THAT(right.live_false, IsEmpty());
  EXPECT_EQ(right.verdict, DrawVerdict::kRight);
  ReportedFault elsewhere = at_rank("late_rank", 2);
  elsewhere.detected_ns = 10'100 * kMs;
  DrawScore wrong = score(late, {first}, {});
  add_live(late, {elsewhere, first, at_rank("unknown", 3)}, wrong);
  EXPECT_EQ(wrong.faults.at(0).latency_ms, 700);
  EXPECT_THAT(wrong.live_false, ElementsAre("late_rank", "unknown"));
  EXPECT_THAT(wrong.false_causes, IsEmpty());
  EXPECT_EQ(wrong.verdict, DrawVerdict::kWrong) << "a false alarm is one, though explain does not repeat it";
  DrawScore healthy = score({}, {}, {});
  add_live({}, {at_rank("unknown", 3)}, healthy);
  EXPECT_THAT(healthy.live_false, ElementsAre("unknown"));
  EXPECT_EQ(healthy.verdict, DrawVerdict::kWrong);
}

TEST(Reading, WhatTheLabWrites) {
  const auto truth = read_truth(R"({"schema":1,"run":{"started_ns":0,"ended_ns":9,"completed":false},"nodes":[
      {"node":"node0","rank":0},{"node":"node0","rank":1},{"node":"node1","rank":2},{"node":"node1","rank":3}],"faults":[
      {"cause":"packet_loss","rank":2,"link":{"src_rank":1,"dst_rank":2},"dose":{"percent":2,"direction":"link"},
       "injected":true,"intervals":[{"from_ns":3,"to_ns":5}]},
      {"cause":"late_rank","rank":0,"link":null,"dose":{"ms":80},"injected":false,"intervals":[]}]})");
  ASSERT_TRUE(truth) << truth.error().what;
  ASSERT_EQ(truth->faults.size(), 1U) << "one never began";
  EXPECT_EQ(truth->planned, 2U);
  EXPECT_EQ(truth->faults[0].direction, "link");
  EXPECT_EQ(truth->faults[0].node, "node1");
  EXPECT_THAT(truth->faults[0].node_ranks, ElementsAre(2, 3));
  EXPECT_THAT(truth->faults[0].src_ranks, ElementsAre(0, 1));
  EXPECT_TRUE(names(at_time(at_link("packet_loss", 0, 3), 0, 1), truth->faults[0])) << "over the same interfaces";
  EXPECT_TRUE(truth->faults[0].catalogued);
  EXPECT_EQ(truth->faults[0].link->src_rank, 1);
  EXPECT_EQ(truth->faults[0].intervals.at(0).to_ns, 5);
  EXPECT_EQ(truth->ended_ns, 9);
  const auto reported =
      read_findings(R"({"findings":[{"cause":"late_rank","culprit":{"node":"node1","rank":null,"pid":3},
      "severity":"waiting","confidence":0.7,"window":{"from_ns":4,"to_ns":6},"link":null,"stall_ms":1.5,
      "detected_ns":7}]})");
  ASSERT_TRUE(reported) << reported.error().what;
  EXPECT_FALSE(reported->at(0).culprit);
  EXPECT_EQ(reported->at(0).node, "node1");
  EXPECT_TRUE(reported->at(0).accuses);
  EXPECT_TRUE(reported->at(0).waiting);
  EXPECT_EQ(reported->at(0).confidence, 0.7);
  EXPECT_EQ(reported->at(0).window.to_ns, 6);
  EXPECT_EQ(reported->at(0).detected_ns, 7);
}

TEST(Reading, AFaultThatNoCauseDescribesIsOutsideTheCatalogue) {
  const auto truth = read_truth(R"({"run":{"started_ns":0,"ended_ns":9,"completed":true},"faults":[
      {"cause":"clock_step","rank":0,"link":null,"dose":{},"injected":true,"intervals":[{"from_ns":3,"to_ns":5}]},
      {"cause":"unknown","rank":0,"link":null,"dose":{},"injected":true,"intervals":[{"from_ns":3,"to_ns":5}]}]})");
  ASSERT_TRUE(truth) << truth.error().what;
  EXPECT_FALSE(truth->faults.at(0).catalogued);
  EXPECT_FALSE(truth->faults.at(1).catalogued);
}

TEST(Reading, AReportsFindingsAreReadAlike) {
  Report report;
  Finding late{.cause = Cause::kLateRank, .severity = Severity::kHigh, .confidence = 0.8};
  late.culprit = Culprit{.node = "node1", .rank = 2, .pid = 7};
  late.window = {4, 6};
  late.stall_ms = 1.5;
  Finding half{.cause = Cause::kPacketLoss, .severity = Severity::kWaiting};
  half.link = LinkEndpoints{.src_rank = 1};
  report.findings = {late, half};
  const std::vector<ReportedFault> reported = reported_faults(report);
  ASSERT_EQ(reported.size(), 2U);
  EXPECT_EQ(reported[0].cause, "late_rank");
  EXPECT_EQ(reported[0].culprit, 2);
  EXPECT_EQ(reported[0].node, "node1");
  EXPECT_EQ(reported[0].confidence, 0.8);
  EXPECT_EQ(reported[0].window.to_ns, 6);
  EXPECT_FALSE(reported[0].waiting);
  EXPECT_TRUE(reported[1].accuses);
  EXPECT_FALSE(reported[1].link) << "one end is not known";
  EXPECT_TRUE(reported[1].waiting);
}

TEST(Reading, AnEndWithoutARankIsKnownByItsAddress) {
  const auto reported = read_findings(R"({"findings":[
      {"cause":"packet_loss","culprit":null,"severity":"low","confidence":0.5,
       "window":{"from_ns":4,"to_ns":6},"stall_ms":1,"link":{"src_rank":2,"dst_rank":null,"src":"10.77.0.3:36248",
       "dst":"10.77.0.4:55489"}},
      {"cause":"packet_loss","culprit":null,"severity":"low","confidence":0.5,
       "window":{"from_ns":4,"to_ns":6},"stall_ms":1,"link":{"src_rank":null,"dst_rank":1,"src":"[fd77::1]:9",
       "dst":null}},
      {"cause":"packet_loss","culprit":null,"severity":"low","confidence":0.5,
       "window":{"from_ns":4,"to_ns":6},"stall_ms":1,"link":{"src_rank":2,"dst_rank":null,"src":null,
       "dst":"192.0.2.1:5"}}]})");
  ASSERT_TRUE(reported) << reported.error().what;
  EXPECT_EQ(reported->at(0).link->dst_rank, 3);
  EXPECT_EQ(reported->at(1).link->src_rank, 0);
  EXPECT_FALSE(reported->at(2).link);
  EXPECT_TRUE(reported->at(2).accuses) << "it accuses all the same";
}

TEST(Reading, AnAddressIsThatOfItsNodesFirstRank) {
  const auto reported = read_findings(R"({"findings":[
      {"cause":"packet_loss","culprit":null,"severity":"low","confidence":0.5,
       "window":{"from_ns":4,"to_ns":6},"stall_ms":1,"link":{"src_rank":0,"dst_rank":null,"src":"10.77.0.1:42777",
       "dst":"10.77.0.2:60356"}}]})",
                                      2);
  ASSERT_TRUE(reported) << reported.error().what;
  EXPECT_EQ(reported->at(0).link->dst_rank, 2);
  const auto truth = read_truth(R"({"run":{"started_ns":0,"ended_ns":9,"completed":true},"faults":[],
      "nodes":[{"node":"node0","rank":0},{"node":"node0","rank":1},{"node":"node1","rank":2},{"node":"node1","rank":3}]})");
  ASSERT_TRUE(truth) << truth.error().what;
  EXPECT_EQ(truth->ranks_per_node, 2);
}

TEST(Reading, DamageIsAnErrorNotACrash) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"run":{"started_ns":0,"ended_ns":"x","completed":true},"faults":[]})"}) {
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
