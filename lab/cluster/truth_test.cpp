// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/truth.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stalltrace::lab {
namespace {

Truth example() {
  Truth truth;
  truth.options.ranks = 2;
  truth.options.workload_args = {"--buckets", "2"};
  truth.started_ns = 100;
  truth.ended_ns = 900;
  truth.completed = false;
  truth.problem = "rank 1 ended with signal 9 (Killed)";
  for (int rank = 0; rank < 2; ++rank) {
    NodeTruth node{make_node(rank, "/out"), {}, 50 + rank};
    node.rank.rank = rank;
    node.rank.pid = 70 + rank;
    node.rank.status = rank == 0 ? ExitStatus{0, {}} : ExitStatus{{}, 9};
    truth.nodes.push_back(node);
  }
  FaultTruth fault;
  fault.spec = parse_fault("packet_loss:rank=1,percent=0.5,direction=link,peer=0").value();
  fault.rank = 1;
  fault.node = "node1";
  fault.link = FaultLink{0, 1};
  fault.intervals = {{200, 300}, {400, 500}};
  fault.packets_dropped = 17;
  fault.commands = {"nft \"x\""};
  fault.details = {{"cpu", "1"}, {"competitor", "stress-cpu"}};
  truth.faults.push_back(fault);
  return truth;
}

TEST(Truth, SaysWhatWasInjectedWhenAndWhere) {
  const auto root = nlohmann::json::parse(to_json(example()));
  EXPECT_EQ(root["schema"], 1);
  EXPECT_EQ(root["run"]["ranks"], 2);
  EXPECT_EQ(root["run"]["workload_args"], nlohmann::json({"--buckets", "2"}));
  EXPECT_EQ(root["run"]["completed"], false);
  EXPECT_TRUE(root["run"]["first_step_ns"].is_null());
  const auto& fault = root["faults"][0];
  EXPECT_EQ(fault["cause"], "packet_loss");
  EXPECT_EQ(fault["rank"], 1);
  EXPECT_EQ(fault["node"], "node1");
  EXPECT_EQ(fault["link"]["src_rank"], 0);
  EXPECT_EQ(fault["link"]["dst_rank"], 1);
  EXPECT_EQ(fault["link"]["src_node"], "node0");
  EXPECT_EQ(fault["link"]["dst_node"], "node1");
  EXPECT_EQ(fault["dose"]["percent"], 0.5);
  EXPECT_EQ(fault["dose"]["direction"], "link");
  EXPECT_EQ(fault["injected"], true);
  EXPECT_EQ(fault["from_ns"], 200);
  EXPECT_EQ(fault["to_ns"], 500);
  EXPECT_EQ(fault["intervals"].size(), 2U);
  EXPECT_EQ(fault["packets_dropped"], 17);
  EXPECT_EQ(fault["details"]["cpu"], 1);
  EXPECT_EQ(fault["commands"][0], "nft \"x\"");
}

TEST(Truth, HoldsTheProcessTable) {
  const auto root = nlohmann::json::parse(to_json(example()));
  ASSERT_EQ(root["nodes"].size(), 2U);
  const auto& node = root["nodes"][1];
  EXPECT_EQ(node["node"], "node1");
  EXPECT_EQ(node["netns"], "stalltrace-node1");
  EXPECT_EQ(node["address"], "10.77.0.2");
  EXPECT_EQ(node["address6"], "fd77::2");
  EXPECT_EQ(node["pid"], 71);
  EXPECT_TRUE(node["exit_code"].is_null());
  EXPECT_EQ(node["exit_signal"], 9);
  EXPECT_EQ(node["recording"], "node1.db");
}

TEST(Truth, ANodeWithSeveralRanksHasAnEntryForEach) {
  Truth truth = example();
  truth.options.ranks_per_node = 2;
  truth.faults.clear();
  for (int rank = 0; rank < 2; ++rank) {
    truth.nodes[static_cast<size_t>(rank)].node = make_node(rank, "/out", 2);
  }
  const auto root = nlohmann::json::parse(to_json(truth));
  EXPECT_EQ(root["run"]["ranks_per_node"], 2);
  ASSERT_EQ(root["nodes"].size(), 2U);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(root["nodes"][rank]["rank"], rank);
    EXPECT_EQ(root["nodes"][rank]["node"], "node0");
    EXPECT_EQ(root["nodes"][rank]["recording"], "node0.db");
  }
}

TEST(Truth, OfAFaultOfARankNamesNoNode) {
  Truth truth = example();
  truth.faults[0].node.clear();
  EXPECT_TRUE(nlohmann::json::parse(to_json(truth))["faults"][0]["node"].is_null());
}

TEST(Truth, AFaultThatNeverBeganSaysSo) {
  Truth truth = example();
  truth.faults[0].intervals.clear();
  truth.faults[0].packets_dropped.reset();
  const auto root = nlohmann::json::parse(to_json(truth));
  EXPECT_EQ(root["faults"][0]["injected"], false);
  EXPECT_TRUE(root["faults"][0]["from_ns"].is_null());
  EXPECT_TRUE(root["faults"][0]["packets_dropped"].is_null());
}

}  // namespace
}  // namespace stalltrace::lab
