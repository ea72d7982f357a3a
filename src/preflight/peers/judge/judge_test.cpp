// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/judge/judge.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "preflight/output.h"
#include "preflight/peers/launch_output.h"
#include "tests/support/golden_text.h"

namespace stalltrace::preflight {
namespace {

constexpr int64_t kMb = 1'000'000;

Flow flow_of(int64_t mbit) {
  return {.bytes = mbit * kMb / 80, .duration_ns = 100 * kNsPerMs, .segments = 10'000, .waited = 0.9};
}

/// `count` healthy nodes, all pairs tested.
LaunchResults cluster(int32_t count) {
  LaunchResults results{.rounds = count - 1, .possible_rounds = count - 1, .world_size = count};
  for (int32_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("gpu{:02}", i);
    results.nodes.push_back(
        {.name = name, .address = fmt::format("10.0.0.{}", i + 1), .interface = "eth0", .mtu = 9000, .first_rank = i});
    results.ranks.push_back({.rank = i, .node = i, .arrivals_ns = {40 * kNsPerUs, 50 * kNsPerUs, 60 * kNsPerUs}});
    results.reports.push_back({.host = name});
  }
  for (const auto& round : plan_rounds(count, 1000)) {
    for (const auto& [a, b] : round) {
      for (const auto& [from, to] : {Pair(a, b), Pair(b, a)}) {
        results.pairs.push_back(
            {.from = from,
             .to = to,
             .reach = Reach::kReached,
             .latency = Latency{.median_ns = 30 * kNsPerUs, .max_ns = 90 * kNsPerUs, .round_trips = 200},
             .mtu = PathMtu{.own = 9000, .largest = 9000},
             .alone = flow_of(9400)});
      }
    }
  }
  return results;
}

PairResult& pair_of(LaunchResults& results, int32_t from, int32_t to) {
  return *std::ranges::find_if(results.pairs, [&](const auto& one) { return one.from == from && one.to == to; });
}

/// What is not ok.
std::string faults(const LaunchResults& results) {
  std::vector<HostCheck> checks = judge(results).checks;
  std::erase_if(checks, [](const HostCheck& one) { return one.outcome == Outcome::kOk; });
  return checks_text(checks);
}

TEST(Judge, AHealthyClusterPasses) {
  EXPECT_EQ(faults(cluster(5)), "0 checks failed, 0 warnings.\n");
  EXPECT_EQ(faults(cluster(1)), "0 checks failed, 0 warnings.\n");
  EXPECT_EQ(faults({}), "0 checks failed, 0 warnings.\n");
}

TEST(Judge, ConnectionsThatFailAreNamedWithTheReason) {
  LaunchResults results = cluster(4);
  pair_of(results, 0, 1) = {.from = 0, .to = 1, .reach = Reach::kRefused, .reach_detail = "Connection refused"};
  pair_of(results, 1, 2) = {.from = 1, .to = 2, .reach = Reach::kTimedOut, .reach_detail = "no answer for 3 s"};
  pair_of(results, 2, 3) = {.from = 2, .to = 3, .reach = Reach::kUnreachable, .reach_detail = "No route to host"};
  pair_of(results, 3, 0) = {.from = 3, .to = 0, .reach = Reach::kBroken, .reach_detail = "nothing came back"};
  results.nodes[1].wrong_names = {{"gpu02", "127.0.1.1"}, {"gpu03", std::nullopt}};
  golden::expect_text(faults(results));
}

TEST(Judge, ALargeLaunchThatFailsHasFewChecks) {
  constexpr size_t kMostChecks = 24;  // of one kind and outcome
  LaunchResults results = cluster(40);
  for (PairResult& pair : results.pairs) {
    if (pair.to < 30 || (pair.from + pair.to) % 3 == 0) {
      pair = {.from = pair.from, .to = pair.to, .reach = Reach::kTimedOut, .reach_detail = "no answer for 3 s"};
    }
  }
  const Judgement judgement = judge(results);
  const auto failed = std::ranges::count_if(
      judgement.checks, [](const HostCheck& one) { return one.check == "reach" && one.outcome == Outcome::kFailed; });
  EXPECT_EQ(failed, kMostChecks);
}

TEST(Judge, WhereNothingIsReachedNothingIsOk) {
  LaunchResults results = cluster(2);
  for (PairResult& pair : results.pairs) {
    pair = {.from = pair.from, .to = pair.to, .reach = Reach::kTimedOut, .reach_detail = "no answer for 3 s"};
  }
  for (const HostCheck& one : judge(results).checks) {
    EXPECT_FALSE(one.check == "reach" && one.outcome == Outcome::kOk) << one.detail;
  }
}

TEST(Judge, APathMtuBelowTheInterfacesIsABlackHoleOnlyWithoutAReason) {
  LaunchResults results = cluster(6);
  results.nodes[1].mtu = 1500;
  for (int32_t i = 0; i < 6; ++i) {
    if (i != 1) {
      pair_of(results, i, 1).mtu = PathMtu{.own = 9000, .largest = 1504};
      pair_of(results, 1, i).mtu = PathMtu{.own = 1500, .largest = 1500};
    }
  }
  pair_of(results, 2, 3).mtu = PathMtu{.own = 9000, .largest = 1400};
  pair_of(results, 3, 2).mtu = PathMtu{.own = 9000, .largest = 8950, .reported = 8950};
  pair_of(results, 4, 2).mtu = PathMtu{.own = 9000, .largest = 0};
  pair_of(results, 5, 4).alone = Flow{.duration_ns = 100 * kNsPerMs, .segments = 12};
  pair_of(results, 5, 4).small = flow_of(600);
  golden::expect_text(faults(results));
}

/// Nothing of a full-size flow arrives: the bytes are those of its set-up.
Flow stuck_flow() { return {.bytes = 4, .duration_ns = 225 * kNsPerMs, .segments = 12}; }

TEST(Judge, ABlackHoleOfAllPairsIsFoundWhereUdpIsBlocked) {
  LaunchResults results = cluster(2);
  for (PairResult& pair : results.pairs) {
    pair.mtu = PathMtu{.own = 9000, .largest = 0};
    pair.alone = stuck_flow();
    pair.small = flow_of(600);
  }
  golden::expect_text(faults(results));
  LaunchResults two = cluster(2);
  pair_of(two, 0, 1).mtu = PathMtu{.own = 9000, .largest = 8950, .reported = 8950};
  pair_of(two, 0, 1).alone = stuck_flow();
  pair_of(two, 0, 1).small = flow_of(600);
  EXPECT_TRUE(judge(two).failed()) << "a reported limit that TCP does not follow";
}

TEST(Judge, WhereNoFlowArrivesEachPairFails) {
  LaunchResults results = cluster(2);
  for (PairResult& pair : results.pairs) {
    pair.mtu = PathMtu{.own = 9000, .largest = 0};
    pair.alone = stuck_flow();
    pair.small = Flow{.duration_ns = 225 * kNsPerMs, .segments = 12};
  }
  pair_of(results, 1, 0).alone->bytes = 0;
  pair_of(results, 1, 0).small.reset();  // its connections could not be opened
  golden::expect_text(faults(results));
  EXPECT_EQ(judge(results).pairs.at(Pair(0, 1)), Outcome::kFailed);
  for (PairResult& pair : results.pairs) {
    pair.latency->median_ns = 200 * kNsPerMs;  // the time of the flow is over before an answer can be there
  }
  EXPECT_FALSE(judge(results).failed());
  EXPECT_EQ(judge(results).pairs.at(Pair(0, 1)), Outcome::kUnknown);
}

TEST(Judge, AFlowThatCanNotBeOpenedIsNoSilence) {
  LaunchResults results = cluster(2);
  const auto not_opened = [&](int32_t from, int32_t to, Reach reach, const std::string& detail) {
    PairResult& pair = pair_of(results, from, to);
    pair.alone.reset();
    pair.flow_reach = reach;
    pair.flow_detail = detail;
  };
  not_opened(0, 1, Reach::kRefused, "Connection refused");
  not_opened(1, 0, Reach::kNotTested, "Too many open files");
  golden::expect_text(faults(results));
  for (const Reach reach : {Reach::kTimedOut, Reach::kUnreachable}) {
    not_opened(1, 0, reach, "as it ended");
    EXPECT_EQ(judge(results).pairs.at(Pair(1, 0)), Outcome::kFailed);
  }
}

TEST(Judge, SlowPairsAreComparedWithTheOthersAndWithTheirInterfaces) {
  LaunchResults results = cluster(4);
  pair_of(results, 0, 1).alone = flow_of(4000);
  for (const int32_t to : {0, 1, 3}) {
    pair_of(results, 2, to).alone = flow_of(40);
  }
  pair_of(results, 3, 0).latency->median_ns = 900 * kNsPerUs;
  golden::expect_text(faults(results));
  LaunchResults equal = cluster(2);  // both are slow: only the interfaces show it
  for (TestedNode& node : equal.nodes) {
    node.line_mbit = 100'000;
  }
  golden::expect_text(faults(equal));
  for (PairResult& pair : equal.pairs) {
    pair.alone->waited = 0.1;  // the CPU was the limit
  }
  EXPECT_EQ(faults(equal), "0 checks failed, 0 warnings.\n");
}

TEST(Judge, LossExplainsWhyAPairIsSlow) {
  LaunchResults results = cluster(4);
  pair_of(results, 0, 1).alone = flow_of(900);
  pair_of(results, 0, 1).alone->retransmits = 400;
  pair_of(results, 0, 1).half_rate = flow_of(450);
  pair_of(results, 0, 1).half_rate->retransmits = 250;
  pair_of(results, 1, 0).alone->retransmits = 60;
  pair_of(results, 1, 0).half_rate = flow_of(4700);
  pair_of(results, 1, 0).half_rate->retransmits = 30;
  pair_of(results, 2, 3).alone->retransmits = 9;
  golden::expect_text(faults(results));
}

TEST(Judge, QueuesThatAFastFlowFillsAreNoFault) {
  LaunchResults results = cluster(4);
  pair_of(results, 0, 1).alone->retransmits = 250;
  golden::expect_text(faults(results));
  pair_of(results, 0, 1).half_rate = flow_of(4700);
  EXPECT_EQ(faults(results), "0 checks failed, 0 warnings.\n");
  pair_of(results, 0, 1).half_rate->retransmits = 250;
  EXPECT_NE(faults(results), "0 checks failed, 0 warnings.\n");
}

TEST(Judge, ARankThatArrivesLateOrPausesIsNamed) {
  LaunchResults results = cluster(5);
  results.ranks[1].arrivals_ns = {6 * kNsPerMs, 7 * kNsPerMs, 8 * kNsPerMs};
  results.ranks[2].arrivals_ns = {600 * kNsPerUs, 700 * kNsPerUs, 800 * kNsPerUs};
  results.ranks[3].arrivals_ns = {40 * kNsPerUs, 50 * kNsPerUs, 204 * kNsPerMs};
  results.ranks[4].joined_ns = 40 * kNsPerSecond;
  golden::expect_text(faults(results));
}

TEST(Judge, AllAtOnceShowsASharedLink) {
  LaunchResults results = cluster(4);
  for (int32_t i = 0; i < 4; ++i) {
    results.nodes[static_cast<size_t>(i)].line_mbit = 10'000;
    pair_of(results, i, (i + 1) % 4).together = flow_of(2500);
  }
  golden::expect_text(faults(results));
}

TEST(Judge, WhatAllLinksOfANodeHaveIsOneCheck) {
  LaunchResults results = cluster(8);
  const auto time_out = [](PairResult& pair) {
    pair = {.from = pair.from, .to = pair.to, .reach = Reach::kTimedOut, .reach_detail = "no answer for 3 s"};
  };
  for (int32_t i = 0; i < 8; ++i) {
    if (i != 3) {
      time_out(pair_of(results, i, 3));
      time_out(pair_of(results, 3, i));
    }
    if (i != 5 && i != 3) {
      time_out(pair_of(results, i, 5));
    }
  }
  golden::expect_text(faults(results));
}

TEST(Judge, TheFoldWithFewerChecksIsTaken) {
  LaunchResults results = cluster(3);
  for (const auto& [from, to] : {Pair(0, 1), Pair(2, 1), Pair(0, 2), Pair(1, 2)}) {
    pair_of(results, from, to).mtu->largest = 1300;
  }
  golden::expect_text(faults(results));
}

TEST(LaunchText, FitsATerminal) {
  LaunchResults few = cluster(4);
  few.nodes[3].name = "a-very-long-name-of-a-node";
  pair_of(few, 2, 3) = {.from = 2, .to = 3, .reach = Reach::kRefused, .reach_detail = "Connection refused"};
  pair_of(few, 1, 0).alone = flow_of(40);
  golden::expect_text(launch_text(few, judge(few)));
  LaunchResults many = cluster(100);
  for (int32_t i = 0; i < 100; ++i) {
    if (i != 70) {
      pair_of(many, i, 70).alone = flow_of(40);
    }
  }
  const std::string text = launch_text(many, judge(many));
  golden::expect_text(text);
  for (const std::string& shown : {launch_text(few, judge(few)), text}) {
    for (const std::string_view line : split(shown.substr(0, shown.find("\n\nok")), '\n')) {
      EXPECT_TRUE(line.size() <= 80 || line.starts_with("ok") || line.starts_with("FAILED") || line.contains("->"))
          << line;
    }
  }
}

TEST(Rounds, EachPairOnceAndEachNodeOnceInARound) {
  for (const int32_t nodes : {2, 3, 4, 7, 8, 33}) {
    std::set<Pair> seen;
    for (const auto& round : plan_rounds(nodes, 1000)) {
      std::set<int32_t> busy;
      for (const auto& [a, b] : round) {
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << nodes;
        EXPECT_TRUE(seen.insert(std::minmax(a, b)).second) << nodes;
      }
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(nodes * (nodes - 1) / 2)) << nodes;
  }
  EXPECT_TRUE(plan_rounds(1, 31).empty());
  const auto few = plan_rounds(1024, 31);
  EXPECT_EQ(few.size(), 31U);
  EXPECT_EQ(few.back().size(), 512U);
  EXPECT_NE(few[0], few[1]);
}

}  // namespace
}  // namespace stalltrace::preflight
