// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/injection/fault_spec.h"

#include <gtest/gtest.h>

#include "lab/cluster/injection/fault_table.h"
#include "model/finding.h"
#include "tests/support/golden_text.h"

namespace stalltrace::lab {
namespace {

TEST(FaultSpec, ReadsEveryKey) {
  const auto spec = parse_fault("packet_loss:rank=2,percent=0.5,direction=link,peer=1,start=2s,duration=1500ms");
  ASSERT_TRUE(spec) << spec.error().what;
  EXPECT_EQ(spec->cause, "packet_loss");
  EXPECT_EQ(spec->rank, 2);
  EXPECT_DOUBLE_EQ(spec->number("percent"), 0.5);
  EXPECT_EQ(spec->choice("direction"), "link");
  EXPECT_EQ(spec->number("peer"), 1);
  EXPECT_EQ(spec->start_ns, 2'000'000'000);
  EXPECT_EQ(spec->duration_ns, 1'500'000'000);
}

TEST(FaultSpec, DefaultsAreTheLoudDose) {
  EXPECT_EQ(parse_fault("packet_loss:rank=0")->number("percent"), 2);
  EXPECT_EQ(parse_fault("packet_loss:rank=0")->choice("direction"), "ingress");
  EXPECT_FALSE(parse_fault("packet_loss:rank=0")->has("peer"));
  EXPECT_EQ(parse_fault("late_rank:rank=0")->number("ms"), 80);
  EXPECT_EQ(parse_fault("slow_device:rank=0")->number("ms"), 80);
  EXPECT_EQ(parse_fault("process_stopped:rank=0")->number("ms"), 1000);
  EXPECT_FALSE(parse_fault("late_rank:rank=0")->start_ns);
}

TEST(FaultSpec, ASlowDeviceHasATimeInEachStepAndASchedule) {
  const auto spec = parse_fault("slow_device:rank=2,ms=7.5,start=3s,duration=2s");
  ASSERT_TRUE(spec) << spec.error().what;
  EXPECT_EQ(spec->cause, "slow_device");
  EXPECT_EQ(spec->rank, 2);
  EXPECT_EQ(spec->choice("ms"), "7.5");
  EXPECT_EQ(spec->start_ns, 3'000'000'000);
  EXPECT_EQ(spec->duration_ns, 2'000'000'000);
  EXPECT_TRUE(parse_fault("slow_device:rank=2,for=500ms,every=2s"));
}

TEST(FaultSpec, FaultsOfTheNetworkMayPrecedeTheJob) {
  EXPECT_TRUE(parse_fault("mtu_blackhole:rank=1,start=launch")->at_launch);
  EXPECT_FALSE(parse_fault("mtu_blackhole:rank=1,start=2s")->at_launch);
}

TEST(FaultSpec, AnyFaultMayComeAndGo) {
  const auto loss = parse_fault("packet_loss:rank=0,for=500ms,every=2s");
  ASSERT_TRUE(loss) << loss.error().what;
  EXPECT_EQ(pulse_of(*find_fault_row("packet_loss"), *loss), 500'000'000);
  EXPECT_EQ(loss->every_ns, 2'000'000'000);
  EXPECT_FALSE(pulse_of(*find_fault_row("packet_loss"), *parse_fault("packet_loss:rank=0")));
  const auto stop = parse_fault("process_stopped:rank=0,ms=300,every=1s");
  ASSERT_TRUE(stop) << stop.error().what;
  EXPECT_EQ(pulse_of(*find_fault_row("process_stopped"), *stop), 300'000'000);
}

TEST(FaultSpec, NoneAndRandom) {
  EXPECT_EQ(parse_fault("none")->cause, "none");
  const auto spec = parse_fault("late_rank:rank=random,ms=20");
  ASSERT_TRUE(spec);
  EXPECT_FALSE(spec->rank);
  const auto drawn = choose_rank(*spec, 4, 7);
  ASSERT_TRUE(drawn);
  EXPECT_EQ(*drawn, *choose_rank(*spec, 4, 7)) << "the same seed draws the same rank";
  bool differs = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto other = choose_rank(*spec, 4, seed);
    ASSERT_TRUE(other);
    EXPECT_GE(*other, 0);
    EXPECT_LT(*other, 4);
    differs = differs || *other != *drawn;
  }
  EXPECT_TRUE(differs);
}

TEST(FaultSpec, AFaultOfTheNetworkMayNameANode) {
  const auto spec = parse_fault("packet_loss:node=1,percent=2");
  ASSERT_TRUE(spec) << spec.error().what;
  EXPECT_EQ(spec->node, 1);
  EXPECT_EQ(*choose_rank(*spec, 8, 0, 4), 4) << "its first rank";
  EXPECT_EQ(*choose_rank(*spec, 4, 0), 1);
  EXPECT_FALSE(choose_rank(*parse_fault("packet_loss:node=2"), 8, 0, 4));
}

TEST(FaultSpec, AFaultOfTheWholeJobHasNoLocation) {
  const auto spec = parse_fault("slow_input:ms=40,start=1s");
  ASSERT_TRUE(spec) << spec.error().what;
  EXPECT_EQ(spec->rank, 0);
  EXPECT_TRUE(parse_fault("slow_input"));
  EXPECT_FALSE(parse_fault("slow_input:rank=1"));
  EXPECT_FALSE(parse_fault("slow_input:node=1"));
}

struct BadCase {
  const char* text;
  const char* message;
};

class BadFault : public testing::TestWithParam<BadCase> {};

TEST_P(BadFault, IsAUsageErrorThatNamesTheMistake) {
  const auto spec = parse_fault(GetParam().text);
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().kind, ErrorKind::kUsage);
  EXPECT_NE(spec.error().what.find(GetParam().message), std::string::npos) << spec.error().what;
  EXPECT_FALSE(spec.error().remedy.empty() && spec.error().what.find("not") == std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    FaultSpec, BadFault,
    testing::Values(BadCase{"", "no such fault"}, BadCase{"gremlins:rank=1", "fault 'gremlins:rank=1': no such fault"},
                    BadCase{"packet_loss", "needs rank=N"}, BadCase{"packet_loss:percent=2", "needs rank=N"},
                    BadCase{"packet_loss:rank=two", "rank=two is not a rank"},
                    BadCase{"packet_loss:rank=-1", "rank=-1 is not a rank"},
                    BadCase{"packet_loss:node=one", "node=one is not a node"},
                    BadCase{"packet_loss:node=1,rank=2", "a fault has one location"},
                    BadCase{"late_rank:node=1", "late_rank acts on a rank, not on a node"},
                    BadCase{"slow_device:node=1", "slow_device acts on a rank, not on a node"},
                    BadCase{"slow_device:rank=1,ms=0", "ms=0 is not a number from 1 to 60000"},
                    BadCase{"slow_device:rank=1,percent=2", "slow_device takes no 'percent'"},
                    BadCase{"slow_device:rank=1,start=launch", "slow_device cannot begin before the ranks start"},
                    BadCase{"packet_loss:rank=1,percent=200", "percent=200 is not a number from 0.01 to 100"},
                    BadCase{"packet_loss:rank=1,percent=2x", "percent=2x is not a number"},
                    BadCase{"packet_loss:rank=1,direction=up", "is not one of ingress, egress, both, link"},
                    BadCase{"packet_loss:rank=1,ms=5", "packet_loss takes no 'ms'"},
                    BadCase{"packet_loss:rank=1,every=1s", "every and for belong together"},
                    BadCase{"packet_loss:rank=1,for=2s,every=1s", "is not longer than"},
                    BadCase{"process_stopped:rank=1,for=1s", "process_stopped takes no 'for'"},
                    BadCase{"late_rank:rank=1,start=soon", "'soon' is not a duration"},
                    BadCase{"partition:rank=1,start=launch,duration=2s", "lasts to the end of the run"},
                    BadCase{"late_rank:rank=1,start=launch", "late_rank cannot begin before the ranks start"},
                    BadCase{"process_stopped:rank=1,ms=1000,every=500ms", "every=500 ms is not longer than the 1 s"},
                    BadCase{"none:rank=1", "no such fault"}));

TEST(FaultSpec, AnUnknownFaultSuggestsASimilarOneElseListsAll) {
  const auto remedy_of = [](std::string_view text) {
    const auto spec = parse_fault(text);
    return spec ? std::string("taken") : spec.error().remedy;
  };
  golden::expect_text(remedy_of("late_rnak:rank=1"));
  golden::expect_text(remedy_of("Packet_Loss"));
  const std::string list = remedy_of("gremlins:rank=1");
  EXPECT_TRUE(list.contains("none, "));
  for (const FaultRow& row : fault_rows()) {
    EXPECT_TRUE(list.contains(row.cause)) << list;
  }
}

TEST(FaultSpec, RanksBeyondTheClusterAreRefused) {
  EXPECT_TRUE(choose_rank(*parse_fault("late_rank:rank=3"), 4, 0));
  EXPECT_FALSE(choose_rank(*parse_fault("late_rank:rank=4"), 4, 0));
  EXPECT_FALSE(choose_rank(*parse_fault("packet_loss:rank=1,direction=link,peer=4"), 4, 0));
}

TEST(FaultTable, EveryRowIsACauseOfTheModelAndItsExampleParses) {
  for (const FaultRow& row : fault_rows()) {
    EXPECT_EQ(cause_from_text(row.cause).has_value(), row.catalogued && !row.harmless) << row.cause;
    const auto spec = parse_fault(row.example);
    ASSERT_TRUE(spec) << row.example << ": " << spec.error().what;
    EXPECT_EQ(spec->cause, row.cause);
    EXPECT_TRUE(row.pulse.empty() || spec->has(row.pulse));
    EXPECT_NE(fault_help().find(row.example), std::string::npos);
  }
}

}  // namespace
}  // namespace stalltrace::lab
