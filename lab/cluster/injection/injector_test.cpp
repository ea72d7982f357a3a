// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/injection/injector.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/clock.h"
#include "base/file.h"

namespace stalltrace::lab {
namespace {

constexpr int64_t kSecond = kNsPerSecond;

TEST(Schedule, ContinuousToTheEndOfTheRun) {
  const Schedule schedule = {2 * kSecond, {}, {}, {}};
  EXPECT_FALSE(schedule.active_at(2 * kSecond - 1));
  EXPECT_TRUE(schedule.active_at(2 * kSecond));
  EXPECT_TRUE(schedule.active_at(1000 * kSecond));
}

TEST(Schedule, OnePulseAndManyPulses) {
  Schedule schedule = {kSecond, {}, kSecond, {}};
  EXPECT_TRUE(schedule.active_at(2 * kSecond - 1));
  EXPECT_FALSE(schedule.active_at(2 * kSecond));
  EXPECT_FALSE(schedule.active_at(4 * kSecond));
  schedule.every_ns = 3 * kSecond;
  EXPECT_TRUE(schedule.active_at(4 * kSecond));
  EXPECT_FALSE(schedule.active_at(5 * kSecond));
  schedule.end_ns = 4 * kSecond;
  EXPECT_FALSE(schedule.active_at(4 * kSecond));
}

/// truth.json would name one of the ranks that are kept out.
TEST(InitFailure, AFirewallBeforeSeveralRanksIsRefused) {
  const std::vector<VirtualNode> nodes = {make_node(0, "lab", 2), make_node(1, "lab", 2), make_node(2, "lab", 2),
                                          make_node(3, "lab", 2)};
  const FaultSpec spec = parse_fault("init_failure:rank=2").value();
  const Result<AppliedFault> applied = find_fault_row("init_failure")->apply(spec, {.nodes = nodes, .rank = 2});
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().kind, ErrorKind::kUsage) << applied.error().what;
}

/// late_rank and slow_device need no privilege: their effect is a file.
class InjectorOfLateRank : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "injector_test";
    nodes_ = {make_node(0, folder_), make_node(1, folder_)};
    std::filesystem::create_directories(nodes_[1].folder);
    nodes_[0].pids = nodes_[1].pids = {1};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<Injector> make(const std::string& fault) {
    const std::vector<FaultSpec> specs = {parse_fault(fault).value()};
    return Injector::make(specs, nodes_, 30, 1, [this](std::string_view line) { lines_.emplace_back(line); });
  }
  [[nodiscard]] std::string slow() const { return read_file(nodes_[1].slow_file).value_or("absent"); }
  [[nodiscard]] std::string device() const { return read_file(nodes_[1].bug_prefix + "device").value_or("absent"); }

  std::string folder_;
  std::vector<VirtualNode> nodes_;
  std::vector<std::string> lines_;
};

TEST_F(InjectorOfLateRank, BeginsAThirdIntoTheRunAndEndsWithIt) {
  auto injector = make("late_rank:rank=1,ms=80");
  ASSERT_TRUE(injector);
  ASSERT_TRUE(injector->tick({}));
  ASSERT_TRUE(injector->tick({5 * kSecond, 9}));
  EXPECT_EQ(slow(), "absent");
  const int64_t before_ns = utc_now_ns();
  ASSERT_TRUE(injector->tick({6 * kSecond, 10}));
  EXPECT_EQ(slow(), "80\n");
  ASSERT_TRUE(injector->tick({60 * kSecond, 29}));
  EXPECT_EQ(slow(), "80\n");
  ASSERT_TRUE(injector->finish());
  EXPECT_EQ(slow(), "absent");
  const auto truths = injector->truths();
  ASSERT_EQ(truths.size(), 1U);
  ASSERT_EQ(truths[0].intervals.size(), 1U);
  EXPECT_GE(truths[0].intervals[0].from_ns, before_ns);
  EXPECT_GT(truths[0].intervals[0].to_ns, truths[0].intervals[0].from_ns);
  EXPECT_EQ(lines_.size(), 2U);
}

TEST_F(InjectorOfLateRank, KeepsToStartAndDuration) {
  auto injector = make("late_rank:rank=1,start=1s,duration=2s");
  ASSERT_TRUE(injector);
  ASSERT_TRUE(injector->tick({0, 1}));
  EXPECT_EQ(slow(), "absent");
  ASSERT_TRUE(injector->tick({kSecond, 2}));
  EXPECT_EQ(slow(), "80\n");
  ASSERT_TRUE(injector->tick({3 * kSecond, 3}));
  EXPECT_EQ(slow(), "absent");
}

TEST_F(InjectorOfLateRank, ASlowDeviceIsAnotherFileForTheSameTime) {
  auto injector = make("slow_device:rank=1,ms=80,start=1s,duration=2s");
  ASSERT_TRUE(injector);
  ASSERT_TRUE(injector->tick({0, 1}));
  EXPECT_EQ(device(), "absent");
  ASSERT_TRUE(injector->tick({kSecond, 2}));
  EXPECT_EQ(device(), "80\n");
  EXPECT_EQ(slow(), "absent") << "the CPU computes as before";
  ASSERT_TRUE(injector->tick({3 * kSecond, 3}));
  EXPECT_EQ(device(), "absent");
}

TEST_F(InjectorOfLateRank, DestructionEndsWhatIsInEffect) {
  {
    auto injector = make("late_rank:rank=1,start=0s");
    ASSERT_TRUE(injector);
    ASSERT_TRUE(injector->tick({0, 1}));
    EXPECT_EQ(slow(), "80\n");
  }
  EXPECT_EQ(slow(), "absent");
}

TEST_F(InjectorOfLateRank, DoesNotBeginOnARankThatHasEnded) {
  auto injector = make("late_rank:rank=1,start=0s");
  ASSERT_TRUE(injector);
  nodes_[1].pids.clear();
  ASSERT_TRUE(injector->tick({0, 1}));
  EXPECT_EQ(slow(), "absent");
  EXPECT_TRUE(injector->truths().at(0).intervals.empty());
}

TEST(InjectorOfANode, NamesTheNodeOfAFaultOfTheNetwork) {
  std::vector<VirtualNode> nodes;
  for (int rank = 0; rank < 4; ++rank) {
    nodes.push_back(make_node(rank, "/out", 2));
  }
  const std::vector<FaultSpec> specs = {parse_fault("packet_loss:node=1").value(),
                                        parse_fault("slow_link:rank=3").value(),
                                        parse_fault("late_rank:rank=3").value()};
  const auto injector = Injector::make(specs, nodes, 30, 1, [](std::string_view) {});
  ASSERT_TRUE(injector);
  const auto truths = injector->truths();
  EXPECT_EQ(truths[0].node, "node1");
  EXPECT_EQ(truths[0].rank, 2);
  EXPECT_EQ(truths[1].node, "node1");
  EXPECT_EQ(truths[1].rank, 3);
  EXPECT_TRUE(truths[2].node.empty());
}

TEST_F(InjectorOfLateRank, NoneIsNoFaultAndAStrangeRankIsRefused) {
  EXPECT_TRUE(make("none")->truths().empty());
  EXPECT_FALSE(make("late_rank:rank=2"));
}

}  // namespace
}  // namespace stalltrace::lab
