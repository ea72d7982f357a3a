// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/launch.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "preflight/output.h"
#include "preflight/peers/judge/judge.h"
#include "preflight/peers/launch_output.h"
#include "preflight/peers/line_channel.h"
#include "preflight/peers/messages.h"
#include "preflight/testing/fake_program.h"
#include "preflight/testing/local_launch.h"
#include "tests/support/golden_text.h"

namespace stalltrace::preflight {
namespace {

const HostCheck* find_check(const std::vector<HostCheck>& checks, std::string_view check, Outcome outcome) {
  const auto found =
      std::ranges::find_if(checks, [&](const HostCheck& one) { return one.check == check && one.outcome == outcome; });
  return found == checks.end() ? nullptr : &*found;
}

TEST(Launch, TestsEachPairBothWays) {
  LocalLaunch local(3);
  local.listen();
  for (int32_t rank = 0; rank < 3; ++rank) {
    local.start_rank(rank);
  }
  const LaunchResults results = local.run();
  ASSERT_EQ(local.steps().size(), 3U);
  golden::expect_text(local.steps().front());
  ASSERT_EQ(results.nodes.size(), 3U);
  EXPECT_EQ(results.nodes[2].name, "host2");
  EXPECT_TRUE(results.launch_checks.empty());
  std::set<Pair> pairs;
  for (const PairResult& pair : results.pairs) {
    pairs.insert({pair.from, pair.to});
    EXPECT_EQ(pair.reach, Reach::kReached) << pair.reach_detail;
    ASSERT_TRUE(pair.latency && pair.mtu && pair.alone);
    EXPECT_GE(pair.latency->max_ns, pair.latency->median_ns);
    EXPECT_EQ(pair.mtu->largest, kMtu);
    EXPECT_GT(pair.alone->bytes, 0);
    EXPECT_LE(pair.alone->bytes, 1 << 20);
    EXPECT_EQ(pair.together.has_value(), pair.to == (pair.from + 1) % 3);
  }
  EXPECT_EQ(pairs.size(), 6U);
  EXPECT_EQ(results.pairs.size(), 6U);
  for (const TestedRank& rank : results.ranks) {
    EXPECT_EQ(rank.arrivals_ns.size(), 5U);
  }
  const auto json = nlohmann::json::parse(launch_json(results, judge(results)));
  EXPECT_EQ(json["pairs"].size(), 6U);
  EXPECT_EQ(json["hosts"].size(), 3U);
}

/// A launch of two ranks on nodes of their own, with collectives of 8 to 128 bytes.
CollectiveResults collectives_of(FakeProgram* first, FakeProgram* second, int64_t step_ns = 10 * kNsPerSecond) {
  LocalLaunch local(2);
  local.launch().collectives = {.wanted = true, .max_bytes = 128, .step_ns = step_ns, .after_fault_ns = 300 * kNsPerMs};
  local.launch().flow = {.streams = 1, .bytes = 1 << 16, .time_ns = 50 * kNsPerMs};
  local.listen();
  local.start_rank(0, first);
  local.start_rank(1, second);
  const LaunchResults results = local.run();
  EXPECT_TRUE(results.launch_checks.empty());
  const auto json = nlohmann::json::parse(launch_json(results, judge(results)));
  EXPECT_EQ(json["collectives"]["ranks"], 2);
  return results.collectives.value_or(CollectiveResults());
}

TEST(Launch, TheLibrariesOfAllRanksMakeCollectives) {
  std::vector<std::string> lines;
  FakeProgram first([&](const std::string& line) {
    lines.push_back(line);
    return FakeProgram::healthy(line);
  });
  FakeProgram second([](const std::string& line) {
    return line.starts_with("run") ? "launched\ndone 3000000 4 8\n" : FakeProgram::healthy(line);
  });
  const CollectiveResults results = collectives_of(&first, &second);
  EXPECT_TRUE(results.faults.empty());
  EXPECT_EQ(results.library, "/opt/nccl/lib/libnccl.so.2");
  EXPECT_EQ(results.connect_ns, 12 * kNsPerMs);
  ASSERT_EQ(results.times.size(), 6 * 3U);  // each operation with 8, 32 and 128 bytes
  const CollectiveTime& time = results.times.front();
  EXPECT_EQ(time.average_ns, 2 * kNsPerMs);
  EXPECT_EQ(time.least_ns, kNsPerMs);
  EXPECT_EQ(time.most_ns, 3 * kNsPerMs);
  EXPECT_EQ(time.slowest_rank, 1);
  EXPECT_EQ(time.calls, 16);  // 50 ms of the slowest rank's calls
  EXPECT_EQ(results.wrong.size(), 2 * results.times.size());
  EXPECT_EQ(results.wrong.front().rank, 1);
  const std::vector<std::string> begin{"load 0", "id", "connect 2 0 128 " + std::string(256, 'a'),
                                       "run AllReduce 8 1 1", "run AllReduce 8 16 0"};
  ASSERT_GE(lines.size(), begin.size());
  EXPECT_EQ(std::vector(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(begin.size())), begin);
}

TEST(Launch, CollectivesEndAtTheFirstFault) {
  FakeProgram healthy(FakeProgram::healthy);
  const CollectiveResults without = collectives_of(&healthy, nullptr);
  ASSERT_EQ(without.faults.size(), 1U);
  EXPECT_EQ(without.faults[0].kind, CollectiveFault::Kind::kNotReady);
  EXPECT_EQ(without.faults[0].rank, 1);
  EXPECT_NE(without.faults[0].detail.find("--collectives"), std::string::npos);
  EXPECT_TRUE(without.times.empty());
  FakeProgram other(FakeProgram::healthy);
  FakeProgram hangs([](const std::string& line) {
    return line.starts_with("run AllGather") ? "launched\n" : FakeProgram::healthy(line);
  });
  const CollectiveResults hung = collectives_of(&other, &hangs, 500 * kNsPerMs);
  ASSERT_EQ(hung.faults.size(), 1U);
  EXPECT_EQ(hung.faults[0].kind, CollectiveFault::Kind::kUnfinished);
  EXPECT_TRUE(hung.faults[0].launched);
  EXPECT_EQ(hung.faults[0].step, "AllGather of 8 B");
  EXPECT_EQ(hung.times.size(), 3U);                // of AllReduce
  FakeProgram third([](const std::string& line) {  // waits for the other one in vain
    return line.starts_with("connect") ? "" : FakeProgram::healthy(line);
  });
  FakeProgram fails([](const std::string& line) {
    return line.starts_with("connect") ? "error ncclCommInitRank: invalid usage\n" : FakeProgram::healthy(line);
  });
  const CollectiveResults failed = collectives_of(&third, &fails);
  ASSERT_EQ(failed.faults.size(), 2U);
  EXPECT_EQ(failed.faults[0].kind, CollectiveFault::Kind::kUnfinished);  // long before the 2 min for a set-up
  EXPECT_EQ(failed.faults[1].kind, CollectiveFault::Kind::kError);
  EXPECT_EQ(failed.faults[1].detail, "ncclCommInitRank: invalid usage");
}

TEST(Launch, NeighboursThatNoRoundTestsAreReachedBeforeAllSendAtOnce) {
  LocalLaunch local(4);
  local.launch().most_rounds = 2;  // 0 with 3 and 1 with 2, then 1 with 3 and 2 with 0: 0 -> 1 and 2 -> 3 are in none
  local.listen();
  for (int32_t rank = 0; rank < 4; ++rank) {
    local.start_rank(rank);
  }
  const LaunchResults results = local.run();
  EXPECT_TRUE(results.launch_checks.empty());
  EXPECT_EQ(results.pairs.size(), 10U);
  int64_t in_no_round = 0;
  for (const PairResult& pair : results.pairs) {
    EXPECT_EQ(pair.reach, Reach::kReached) << pair.from << " to " << pair.to;
    EXPECT_TRUE(pair.latency);
    EXPECT_EQ(pair.together.has_value(), pair.to == (pair.from + 1) % 4);
    if (Pair(pair.from, pair.to) == Pair(0, 1) || Pair(pair.from, pair.to) == Pair(2, 3)) {
      ++in_no_round;
      EXPECT_FALSE(pair.mtu || pair.alone);
    } else {
      EXPECT_TRUE(pair.mtu && pair.alone);
    }
  }
  EXPECT_EQ(in_no_round, 2);
}

TEST(Launch, GoesOnWithoutARankThatDoesNotComeOrDoesNotAnswer) {
  LocalLaunch local(4);
  local.launch().wait_ns = 5 * kNsPerSecond;
  local.launch().arrival_ns = 2 * kNsPerSecond;
  local.listen();
  local.start_rank(0);
  local.start_rank(1);
  std::jthread silent([&, channel = local.introduce(3)]() mutable {
    while (auto order = channel.receive(10 * kNsPerSecond)) {
      (void)channel.send({{"reach", "refused"}});
      if (text_member(*order, "order") == "barrier") {
        (void)channel.receive_byte(10 * kNsPerSecond);  // and no answer
        (void)channel.receive(10 * kNsPerSecond);
        return;
      }
    }
  });
  const LaunchResults results = local.run();
  golden::expect_text(checks_text(results.launch_checks));
  const Judgement judgement = judge(results);
  EXPECT_TRUE(judgement.failed());
  const HostCheck* reach = find_check(judgement.checks, "reach", Outcome::kFailed);
  ASSERT_NE(reach, nullptr);
  golden::expect_text(checks_text(std::span(reach, 1)));  // its own ports are closed
}

TEST(Launch, ALateArrivalAtTheBarrierIsMeasured) {
  LocalLaunch local(3);
  local.listen();
  local.start_rank(0);
  local.start_rank(1);
  std::jthread late([&, channel = local.introduce(2)]() mutable {
    while (auto order = channel.receive(10 * kNsPerSecond)) {
      if (text_member(*order, "order") == "end") {
        return;
      }
      (void)channel.send({{"ready", true}});
      if (text_member(*order, "order") != "barrier") {
        continue;
      }
      for (auto byte = channel.receive_byte(kNsPerSecond); byte && *byte == 'g';
           byte = channel.receive_byte(kNsPerSecond)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the fault
        (void)channel.send_byte('a');
      }
    }
  });
  const LaunchResults results = local.run();
  ASSERT_EQ(results.ranks.size(), 3U);
  EXPECT_GE(median_arrival_ns(results.ranks[2]), 30 * kNsPerMs);
}

TEST(Launch, ASlowPairIsTestedOnceMore) {
  LocalLaunch local(3);
  local.listen();
  local.start_rank(0);
  local.start_rank(1);
  constexpr int64_t kFast = 1LL << 40;
  std::jthread slow([&, channel = local.introduce(2)]() mutable {
    for (auto order = channel.receive(10 * kNsPerSecond); order; order = channel.receive(10 * kNsPerSecond)) {
      const std::string name = text_member(*order, "order");
      if (name == "barrier") {
        return;
      }
      if (name != "test") {
        (void)channel.send({{"ready", true}});
        continue;
      }
      const bool again = order->value("flow_only", false);
      PairResult answer{.reach = Reach::kReached};
      answer.alone = Flow{.bytes = again ? kFast : 1000, .duration_ns = kNsPerSecond, .retransmits = again ? 1 : 0};
      if (again && order->value("half_rate", false)) {
        answer.half_rate = Flow{.bytes = kFast / 2, .duration_ns = kNsPerSecond};
      }
      (void)channel.send(to_json(answer));
    }
  });
  const LaunchResults results = local.run();
  for (const PairResult& pair : results.pairs) {
    if (pair.from == 2) {
      ASSERT_TRUE(pair.alone);
      EXPECT_EQ(pair.alone->bytes, kFast);
      ASSERT_TRUE(pair.half_rate) << "loss is judged by it alone";
      EXPECT_EQ(pair.half_rate->bytes, kFast / 2);
    }
  }
}

TEST(Launch, RefusesWhoDoesNotBelongToIt) {
  LocalLaunch local(2);
  local.listen();
  LineChannel first = local.introduce(1);
  LineChannel twice = local.introduce(1);
  LineChannel of_another_size = local.introduce(1, 5);
  local.start_rank(0);
  first.close();
  const LaunchResults results = local.run();
  for (LineChannel* refused : {&twice, &of_another_size}) {
    const auto answer = refused->receive(kNsPerSecond);
    ASSERT_TRUE(answer);
    EXPECT_NE(text_member(*answer, "refused"), "");
  }
  golden::expect_text(checks_text(results.launch_checks));
}

TEST(Launch, StrangersLeaveFewChecksAndThoseOfAnotherJobNone) {
  LocalLaunch local(1);
  local.listen();
  std::vector<LineChannel> strangers;
  for (int i = 0; i < 12; ++i) {
    strangers.push_back(local.introduce(1, 5));
  }
  LineChannel of_another_job = local.introduce(0, 5, "another");
  local.start_rank(0);
  const LaunchResults results = local.run();
  EXPECT_EQ(results.launch_checks.size(), 8U);
  const auto answer = of_another_job.receive(kNsPerSecond);
  ASSERT_TRUE(answer);
  EXPECT_NE(text_member(*answer, "refused").find("another"), std::string::npos);
}

TEST(Launch, WithASecretNoOtherRankIsTaken) {
  LocalLaunch local(1);
  local.launch().secret = std::string(kLaunchSecretBytes / 2, 'a') + std::string(kLaunchSecretBytes / 2, 'b');
  local.listen();
  LineChannel stranger = local.introduce(0);
  local.start_rank(0);
  const LaunchResults results = local.run();
  ASSERT_EQ(results.ranks.size(), 1U);
  EXPECT_TRUE(results.launch_checks.empty());
  EXPECT_EQ(results.nodes[0].name, "host0");
  const auto answer = stranger.receive(kNsPerSecond);
  ASSERT_TRUE(answer);
  EXPECT_NE(text_member(*answer, "refused"), "");
  EXPECT_EQ(answer->dump().find("aaaa"), std::string::npos);
  EXPECT_EQ(answer->dump().find("bbbb"), std::string::npos);
}

TEST(Launch, ItsDescriptorsAreEnoughForItsRanks) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto coordinator = Coordinator::open({.world_size = 200, .port = 0});
  rlimit after{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(coordinator);
  EXPECT_GE(after.rlim_cur, 200U);
}

TEST(Launch, ItWaitsWhereItCanNotAccept) {
  auto coordinator = Coordinator::open({.world_size = 1, .port = 0, .wait_ns = kNsPerSecond});
  ASSERT_TRUE(coordinator);
  auto master = Endpoint::of("127.0.0.1", coordinator->port());
  const Connected rank = connect_within(*master, kNsPerSecond);
  ASSERT_EQ(rank.error, 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  const int next = ::dup(STDERR_FILENO);  // the lowest that is free
  ::close(next);
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::clock_t begin = std::clock();
  const auto results = coordinator->run([](const std::string&) {});
  const std::clock_t used = std::clock() - begin;
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(results);
  EXPECT_NE(results.error().what.find(std::strerror(EMFILE)), std::string::npos) << results.error().what;
  EXPECT_LT(used, CLOCKS_PER_SEC / 4);
}

TEST(Launch, NoticesAnotherProgramAtItsPort) {
  LocalLaunch local(1);
  local.listen();
  auto master = Endpoint::of("127.0.0.1", local.launch().port);
  LineChannel odd(std::move(connect_within(*master, kNsPerSecond).fd));
  EXPECT_TRUE(odd.send({{"rank", 0}}));
  local.start_rank(0);
  EXPECT_EQ(local.run().ranks.size(), 1U);
  const auto answer = odd.receive(kNsPerSecond);
  ASSERT_TRUE(answer);
  EXPECT_NE(text_member(*answer, "refused"), "");
}

}  // namespace
}  // namespace stalltrace::preflight
