// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "preflight/peers/collectives/helper.h"
#include "preflight/peers/collectives/messages.h"
#include "preflight/peers/collectives/operations.h"
#include "preflight/peers/collectives/output.h"
#include "preflight/testing/fake_program.h"
#include "tests/support/golden_text.h"

namespace stalltrace::preflight {
namespace {

using Step = CollectiveOrder::Step;
using State = CollectiveAnswer::State;

constexpr int64_t kMax = 1 << 20;

size_t index_of_name(std::string_view name) { return find_operation(name).value(); }

TEST(Collectives, BandwidthIsThatOfNcclTests) {
  // 4 ranks, 1000 bytes in 100 ns: 10 GB/s by the algorithm (doc/PERFORMANCE.md has the factors of the bus).
  EXPECT_DOUBLE_EQ(algbw(1000, 100), 10);
  EXPECT_DOUBLE_EQ(busbw(index_of_name("AllReduce"), 4, 1000, 100), 15);
  EXPECT_DOUBLE_EQ(busbw(index_of_name("AllGather"), 4, 1000, 100), 7.5);
  EXPECT_DOUBLE_EQ(busbw(index_of_name("ReduceScatter"), 4, 1000, 100), 7.5);
  EXPECT_DOUBLE_EQ(busbw(index_of_name("Broadcast"), 4, 1000, 100), 10);
  EXPECT_DOUBLE_EQ(busbw(index_of_name("Reduce"), 4, 1000, 100), 10);
  EXPECT_DOUBLE_EQ(busbw(index_of_name("SendRecv"), 4, 1000, 100), 10);
  EXPECT_DOUBLE_EQ(busbw(index_of_name("AllReduce"), 2, 1000, 100), algbw(1000, 100));
  EXPECT_EQ(busbw(index_of_name("AllReduce"), 1, 1000, 100), 0);
  EXPECT_EQ(algbw(1000, 0), 0);
}

TEST(Collectives, SizesGrowToTheLargest) {
  EXPECT_EQ(collective_sizes(8), (std::vector<int64_t>{8}));
  EXPECT_EQ(collective_sizes(100), (std::vector<int64_t>{8, 32, 100}));
  EXPECT_EQ(collective_sizes(512), (std::vector<int64_t>{8, 32, 128, 512}));
}

TEST(Collectives, VersionsHaveTheFormOfTheirTime) {
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
}

TEST(Collectives, OrdersArriveAsTheyWereSentAndOthersAreRefused) {
  const std::string id(256, 'f');
  const std::vector<std::pair<CollectiveOrder, std::string>> orders{
      {{.step = Step::kLoad, .limit_ns = 5, .device = 3}, "load 3 /opt/my nccl/libnccl.so.2\n"},
      {{.step = Step::kId}, "id\n"},
      {{.step = Step::kConnect, .ranks = 4, .rank = 2, .bytes = 64, .id = id}, "connect 4 2 64 " + id + "\n"},
      {{.step = Step::kRun, .bytes = 64, .operation = 2, .calls = 7, .check = true}, "run ReduceScatter 64 7 1\n"}};
  for (const auto& [order, line] : orders) {
    const auto again = collective_order_from_json(to_json(order));
    ASSERT_TRUE(again) << line;
    EXPECT_EQ(to_json(*again), to_json(order));
    EXPECT_EQ(line_of(*again, "/opt/my nccl/libnccl.so.2"), line);
  }
  EXPECT_EQ(line_of(orders[0].first, ""), "load 3\n");
  auto odd = to_json(orders[2].first);
  odd["id"] = "aa\nrun AllReduce 8 1 1";
  EXPECT_FALSE(collective_order_from_json(odd));
  odd = to_json(orders[2].first);
  odd["rank"] = 4;
  EXPECT_FALSE(collective_order_from_json(odd));
  odd = to_json(orders[3].first);
  odd["operation"] = "AllReduce\nid";
  EXPECT_FALSE(collective_order_from_json(odd));
  EXPECT_FALSE(collective_order_from_json({{"order", "collective"}}));
  odd = to_json(orders[3].first);
  odd["calls"] = 1'000'000;
  EXPECT_EQ(collective_order_from_json(odd)->calls, kMostCalls);
}

TEST(Collectives, AnswersArriveAsTheyWereSent) {
  for (const CollectiveAnswer& answer :
       {CollectiveAnswer{.state = State::kDone, .version = 22809, .library = "/a b", .duration_ns = 4, .bytes = 12},
        CollectiveAnswer{.detail = "ncclAllReduce: unhandled system error"},
        CollectiveAnswer{.state = State::kUnfinished, .detail = "did not end", .launched = true}}) {
    EXPECT_EQ(to_json(collective_answer_from_json(to_json(answer))), to_json(answer));
  }
  EXPECT_EQ(collective_answer_from_json({{"state", "well"}}).state, State::kError);
}

TEST(CollectivesHelper, GetsTheProgramsAnswers) {
  std::vector<std::string> lines;
  FakeProgram program([&](const std::string& line) {
    lines.push_back(line);
    return FakeProgram::healthy(line);
  });
  CollectivesHelper helper(program.take_socket(), 0, "/opt/nccl/lib/libnccl.so.2", kMax);
  const CollectiveAnswer loaded = helper.follow({.step = Step::kLoad, .limit_ns = 10 * kNsPerSecond});
  EXPECT_EQ(loaded.state, State::kDone);
  EXPECT_EQ(loaded.version, 22809);
  EXPECT_EQ(loaded.library, "/opt/nccl/lib/libnccl.so.2");
  EXPECT_EQ(lines.back(), "load 0 /opt/nccl/lib/libnccl.so.2");
  const CollectiveAnswer ran =
      helper.follow({.step = Step::kRun, .limit_ns = 10 * kNsPerSecond, .bytes = 4096, .operation = kAllReduce});
  EXPECT_EQ(ran.state, State::kDone);
  EXPECT_EQ(ran.duration_ns, kNsPerMs);
  EXPECT_EQ(ran.bytes, 4096);
  const CollectiveAnswer too_large =
      helper.follow({.step = Step::kRun, .limit_ns = 10 * kNsPerSecond, .bytes = 2 * kMax, .operation = kAllReduce});
  EXPECT_EQ(too_large.state, State::kError);
  EXPECT_NE(too_large.detail.find("1.0 MiB"), std::string::npos) << too_large.detail;
  EXPECT_EQ(lines.size(), 2U);
}

TEST(CollectivesHelper, AProgramThatDoesNotEndIsLeftAlone) {
  FakeProgram program([](const std::string&) { return "launched\n"; });
  CollectivesHelper helper(program.take_socket(), 0, "", kMax);
  const CollectiveAnswer late = helper.follow({.step = Step::kRun, .limit_ns = 200 * kNsPerMs, .bytes = 8});
  EXPECT_EQ(late.state, State::kUnfinished);
  EXPECT_TRUE(late.launched);
  EXPECT_EQ(helper.follow({.step = Step::kRun, .bytes = 8}).state, State::kError);
}

TEST(CollectivesHelper, TheEndAndTheErrorsOfAProgramAreErrors) {
  FakeProgram program([](const std::string& line) -> std::string {
    return line == "id" ? "end" : "error ncclAllReduce: unhandled system error (socket: Connection reset)\n";
  });
  CollectivesHelper helper(program.take_socket(), 0, "", kMax);
  const CollectiveAnswer error = helper.follow({.step = Step::kRun, .limit_ns = 10 * kNsPerSecond, .bytes = 8});
  EXPECT_EQ(error.state, State::kError);
  EXPECT_EQ(error.detail, "ncclAllReduce: unhandled system error (socket: Connection reset)");
  EXPECT_EQ(helper.follow({.step = Step::kId, .limit_ns = 10 * kNsPerSecond}).state, State::kEnded);
  CollectivesHelper none("refused");
  EXPECT_EQ(none.follow({.step = Step::kLoad}).detail, "refused");
}

TEST(CollectivesText, HasARowForEachSizeAndLeavesOutWhatWasNotMeasured) {
  CollectiveResults results{
      .ranks = 4, .library = "/opt/libnccl.so.2", .versions = {{22809, {0, 1, 2, 3}}}, .max_bytes = 128};
  EXPECT_EQ(collectives_text(results), "");
  results.times = {{.operation = 0, .bytes = 8, .calls = 20, .average_ns = 1000},
                   {.operation = 0, .bytes = 32, .calls = 20, .average_ns = 4},
                   {.operation = 1, .bytes = 16, .calls = 20, .average_ns = 1}};
  golden::expect_text(collectives_text(results));
  const auto json = collectives_json(results);
  EXPECT_EQ(json["times"].size(), 3U);
  EXPECT_EQ(json["times"][2]["operation"], "AllGather");
  EXPECT_EQ(json["versions"]["2.28.9"].size(), 4U);
}

}  // namespace
}  // namespace stalltrace::preflight
