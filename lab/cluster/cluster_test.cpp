// SPDX-License-Identifier: Apache-2.0
// The cluster's names, commands, environments and state file, without running anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/process/command.h"
#include "base/process/subprocess.h"
#include "lab/cluster/agent_servers.h"
#include "lab/cluster/artefacts/artefacts.h"
#include "lab/cluster/host/network.h"
#include "lab/cluster/host/process.h"
#include "lab/cluster/run.h"
#include "lab/cluster/state.h"
#include "lab/cluster/workload.h"
#include "tests/support/golden_text.h"

namespace stalltrace::lab {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Node, RanksAreNumberedNodeByNode) {
  std::vector<VirtualNode> ranks;
  for (int rank = 0; rank < 6; ++rank) {
    ranks.push_back(make_node(rank, "/out", 3));
  }
  EXPECT_EQ(ranks[4].rank, 4);
  EXPECT_EQ(ranks[4].number, 1);
  EXPECT_EQ(ranks[4].local_rank, 1);
  EXPECT_EQ(ranks[4].local_ranks, 3);
  EXPECT_EQ(ranks[4].name, "node1");
  EXPECT_EQ(ranks[4].address, "10.77.0.2");
  EXPECT_EQ(ranks[4].folder, ranks[3].folder);
  EXPECT_NE(ranks[4].slow_file, ranks[3].slow_file) << "a late rank is one of them";
  EXPECT_NE(ranks[4].bug_prefix, ranks[3].bug_prefix);
  const std::vector<VirtualNode> nodes = one_per_node(ranks);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[1].rank, 3);
  EXPECT_EQ(bridge_port(nodes[1].number), "veth1");
}

TEST(Network, TouchesNothingOutsideItsOwnNamespaces) {
  const std::vector<VirtualNode> nodes = {make_node(0, "/out"), make_node(1, "/out")};
  const auto commands = network_commands(nodes);
  for (const auto& command : commands) {
    ASSERT_GE(command.size(), 4U);
    EXPECT_EQ(command[0], "ip");
    const bool makes_namespace = command[1] == "netns" && command[2] == "add";
    const bool inside = command[1] == "-n";
    EXPECT_TRUE(makes_namespace || inside) << format_command(command);
    EXPECT_TRUE(command[makes_namespace ? 3 : 2].starts_with(kNetnsPrefix)) << format_command(command);
  }
  std::vector<std::string> lines;
  std::ranges::transform(commands, std::back_inserter(lines), format_command);
  EXPECT_THAT(lines, Contains("ip -n stalltrace-node1 addr add 10.77.0.2/24 dev eth0"));
  EXPECT_THAT(lines, Contains("ip -n stalltrace-node1 addr add fd77::2/64 dev eth0 nodad"));
}

TEST(Network, ARateIsABucketOnTheBridge) {
  const std::vector<VirtualNode> nodes = {make_node(0, "/out")};
  EXPECT_EQ(network_commands(nodes, 400).size(), network_commands(nodes).size() + 1);
  EXPECT_EQ(format_command(network_commands(nodes, 400).back()),
            "ip netns exec stalltrace-bridge tc qdisc add dev veth0 root tbf rate 400mbit burst 64k limit 64m");
}

AgentServers some_servers() {
  return {.token = "secret", .certificate = "cert", .key = "key", .fingerprint = "12ab", .faults = {}, .hold_ns = 0};
}

TEST(AgentServers, EachListensAtItsNodesAddress) {
  AgentServers servers = some_servers();
  servers.faults = {{1, "down"}, {2, "hangs"}};
  const std::vector<VirtualNode> nodes = {make_node(0, "/out"), make_node(1, "/out"), make_node(2, "/out")};
  EXPECT_EQ(list_of_nodes(nodes), "10.77.0.1:7700\n10.77.0.2:7700\n10.77.0.3:7700\n");
  EXPECT_EQ(format_command(server_arguments(servers, nodes[0], "/out")),
            "--serve 10.77.0.1:7700 --token-file /out/token --tls-cert /out/tls-cert.pem --tls-key /out/tls-key.pem");
  EXPECT_TRUE(server_arguments(servers, nodes[1], "/out").empty());
  EXPECT_THAT(format_command(server_arguments(servers, nodes[2], "/out")), testing::EndsWith(" --node-fault hangs"));
}

TEST(AgentServers, TheCommandThatAsksThemIsForAShell) {
  EXPECT_EQ(format_command({"a b"}), "'a b'");
  EXPECT_EQ(asking_command(some_servers(), "/out"),
            "ip netns exec stalltrace-bridge stalltrace nodes --nodes @/out/nodes --token-file /out/token "
            "--tls-fingerprint 12ab");
}

TEST(AgentServers, TheirFilesAreTheOwnersAloneAndGoWithTheObject) {
  const std::string folder = testing::TempDir() + "cluster_test_servers";
  std::filesystem::create_directories(folder);
  {
    const auto files = ServerFiles::write(some_servers(), {}, folder);
    ASSERT_TRUE(files) << files.error().what;
    EXPECT_EQ(read_file(folder + "/token").value_or(""), "secret\n");
    for (const std::string_view name : kServerFiles) {
      const auto mode = std::filesystem::status(std::filesystem::path(folder) / name).permissions();
      EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write) << name;
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST(Workload, RankHasTorchrunsEnvironmentAndItsOwnLibraries) {
  const VirtualNode node = make_node(2, "/out");
  const std::vector<std::string> extra = {"--buckets", "3"};
  const RankContext context = {&node, "10.77.0.1", 4, 50, "lab-1", "/out/rank2.steps.jsonl", &extra};
  const WorkloadRow* row = find_workload("nccl");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(format_command(row->argv(context)),
            "/out/node2/bin/nccl-train --steps 50 --log /out/rank2.steps.jsonl --buckets 3");
  const auto environment = row->environment(context);
  for (const char* line :
       {"RANK=2", "LOCAL_RANK=0", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=1", "GROUP_RANK=2", "MASTER_ADDR=10.77.0.1",
        "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=lab-1", "NCCL_SOCKET_IFNAME=eth0", "LAB_SLOW_FILE=/out/node2/slow_ms",
        "LD_LIBRARY_PATH=/out/node2/lib"}) {
    EXPECT_THAT(environment, Contains(line));
  }
  EXPECT_EQ(find_workload("nothing"), nullptr);
}

TEST(Workload, ARankOfSeveralOnItsNodeKnowsItsNumbers) {
  const VirtualNode node = make_node(5, "/out", 2);
  const std::vector<std::string> extra;
  const RankContext context = {&node, "10.77.0.1", 6, 50, "lab-1", "/out/rank5.steps.jsonl", &extra};
  for (const char* workload : {"nccl", "torch"}) {
    const auto environment = find_workload(workload)->environment(context);
    for (const char* line : {"RANK=5", "LOCAL_RANK=1", "WORLD_SIZE=6", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=2",
                             "LAB_SLOW_FILE=/out/node2/rank5_slow_ms", "LAB_BUGS=/out/node2/rank5_bug_"}) {
      EXPECT_THAT(environment, Contains(line)) << workload;
    }
  }
  EXPECT_THAT(find_workload("nccl")->environment(context), Contains("LAB_NCCL_SHM=1"));
}

TEST(Workload, RanksOfMpiOnOneNodeUseItsMemory) {
  std::vector<VirtualNode> nodes;
  const std::vector<std::string> extra;
  for (int rank = 0; rank < 4; ++rank) {
    nodes.push_back(make_node(rank, "/out", 2));
  }
  std::vector<RankContext> ranks;
  for (const VirtualNode& node : nodes) {
    ranks.push_back({&node, "10.77.0.1", 4, 50, "lab-1", node.folder + ".jsonl", &extra, node.folder + ".log"});
  }
  const std::string command = format_command(find_workload("mpi")->launcher(ranks));
  EXPECT_THAT(command, HasSubstr("--mca btl vader,tcp,self"));
  EXPECT_THAT(command, HasSubstr(" : --host 10.77.0.2:2 -np 1 -x LAB_SLOW_FILE=/out/node1/rank3_slow_ms"));
  EXPECT_THAT(command, HasSubstr("-x OMPI_MCA_btl_vader_backing_directory=/out/node1"));
}

TEST(Workload, OneCommandStartsAllRanksOfMpi) {
  const std::vector<VirtualNode> nodes = {make_node(0, "/out"), make_node(1, "/out")};
  const std::vector<std::string> extra = {"--blocking"};
  std::vector<RankContext> ranks;
  for (const VirtualNode& node : nodes) {
    ranks.push_back({&node, "10.77.0.1", 2, 50, "lab-1", node.folder + ".jsonl", &extra, node.folder + ".log"});
  }
  const WorkloadRow* row = find_workload("mpi");
  ASSERT_NE(row, nullptr);
  ASSERT_NE(row->launcher, nullptr);
  const std::string command = format_command(row->launcher(ranks));
  EXPECT_THAT(command, StartsWith("mpirun "));
  EXPECT_THAT(command, HasSubstr("--mca plm_rsh_agent /out/node0/bin/node-shell"));
  EXPECT_THAT(command, HasSubstr("--mca btl tcp,self"));
  EXPECT_THAT(command, HasSubstr(" : --host 10.77.0.2 -np 1 -x LAB_SLOW_FILE=/out/node1/slow_ms"));
  EXPECT_THAT(command,
              HasSubstr("/out/node1.log /out/node1/bin/mpi-train --steps 50 --log /out/node1.jsonl --blocking"));
}

TEST(Workload, RefusesAMistakeThatItDoesNotMake) {
  const auto slow = parse_fault("slow_receiver:rank=1");
  const auto device = parse_fault("slow_device:rank=1");
  const auto extra = parse_fault("mismatched_collective:rank=0,what=extra");
  ASSERT_TRUE(slow && device && extra);
  EXPECT_TRUE(check_fault(*find_workload("nccl"), *slow));
  EXPECT_FALSE(check_fault(*find_workload("mpi"), *slow));
  EXPECT_TRUE(check_fault(*find_workload("nccl"), *device));
  EXPECT_FALSE(check_fault(*find_workload("mpi"), *device));
  EXPECT_FALSE(check_fault(*find_workload("torch"), *device)) << "Gloo has no device";
  EXPECT_FALSE(check_fault(*find_workload("nccl"), *extra));
  EXPECT_TRUE(check_fault(*find_workload("torch"), *extra));
}

TEST(Workload, CountsStepsOfAGrowingLog) {
  const std::string path = testing::TempDir() + "cluster_test.jsonl";
  std::filesystem::remove(path);
  StepCounter counter(path);
  EXPECT_EQ(counter.count(), 0);
  std::ofstream log(path);
  log << "{}\n{}\n{" << std::flush;
  EXPECT_EQ(counter.count(), 2);
  log << "}\n" << std::flush;
  EXPECT_EQ(counter.count(), 3);
  std::filesystem::remove(path);
}

TEST(Artefacts, AreProgramsScriptsAndLibraries) {
  ASSERT_GE(artefacts().size(), 6U);
  for (const Artefact& artefact : artefacts()) {
    const bool script = artefact.bytes.starts_with("#!/");
    EXPECT_TRUE(script || artefact.bytes.starts_with("\x7f"
                                                     "ELF"))
        << artefact.path;
  }
}

TEST(Artefacts, FolderGoesWithItsObject) {
  const VirtualNode node = make_node(1, testing::TempDir() + "cluster_test");
  {
    const auto folder = NodeFolder::make(node);
    ASSERT_TRUE(folder) << folder.error().what;
    const auto program = std::filesystem::status(node.folder + "/bin/stress-cpu");
    EXPECT_NE(program.permissions() & std::filesystem::perms::owner_exec, std::filesystem::perms::none);
  }
  EXPECT_FALSE(std::filesystem::exists(node.folder));
  std::filesystem::remove_all(testing::TempDir() + "cluster_test");
}

TEST(State, SurvivesTheRoundTrip) {
  const ClusterState state = {
      4, 3, {{"late_rank:rank=1", {{UndoKind::kRemoveFile, {"/a b"}}, {UndoKind::kKill, {"12", "34"}}}}}};
  const auto read = cluster_state_from_json(to_json(state));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->ranks, 4);
  EXPECT_EQ(read->next_number, 3);
  ASSERT_EQ(read->faults.size(), 1U);
  EXPECT_EQ(read->faults[0].text, "late_rank:rank=1");
  ASSERT_EQ(read->faults[0].undo.size(), 2U);
  EXPECT_EQ(read->faults[0].undo[1].kind, UndoKind::kKill);
  EXPECT_EQ(read->faults[0].undo[1].arguments, (std::vector<std::string>{"12", "34"}));
}

TEST(State, DamageIsAnErrorNotACrash) {
  for (const char* text :
       {"", "{", "[]", R"({"schema":1,"ranks":2})", R"({"schema":9,"ranks":2,"next_number":0,"faults":[]})",
        R"({"schema":1,"ranks":"x","next_number":0,"faults":[]})"}) {
    const auto read = cluster_state_from_json(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::kCorrupt);
  }
}

TEST(Undo, LeavesAProcessWithAReusedPidAlone) {
  SpawnOptions options;
  options.argv = {"sleep", "60"};
  auto child = Subprocess::spawn(options);
  ASSERT_TRUE(child);
  UndoAction stale = undo_for_process(UndoKind::kKill, child->pid());
  stale.arguments[1] = "1";
  EXPECT_TRUE(undo_all(std::span(&stale, 1)));
  EXPECT_TRUE(process_start_time(child->pid()));
  const UndoAction right = undo_for_process(UndoKind::kKill, child->pid());
  EXPECT_TRUE(undo_all(std::span(&right, 1)));
  EXPECT_FALSE(process_start_time(child->pid()));
  (void)child->detach();  // reaped by the undo
}

TEST(Undo, GoesOnAfterAFailureAndBackwards) {
  const std::string folder = testing::TempDir() + "cluster_test_undo";
  std::filesystem::create_directories(folder + "/in_the_way");
  std::ofstream(folder + "/file") << "x";
  const std::vector<UndoAction> actions = {{UndoKind::kRemoveFile, {folder + "/file"}},
                                           {UndoKind::kRemoveFile, {folder + "/in_the_way"}},
                                           {UndoKind::kRemoveFile, {folder + "/never_there"}}};
  const auto status = undo_all(actions);
  ASSERT_FALSE(status);
  golden::expect_text(status.error().what, {{folder, "FOLDER"}});
  EXPECT_FALSE(std::filesystem::exists(folder + "/file"));
  std::filesystem::remove_all(folder);
}

TEST(Run, WrongOptionsAreUsageErrors) {
  RunOptions options;
  options.out_dir = testing::TempDir() + "never_made";
  options.ranks = 0;
  EXPECT_EQ(run(options).error().kind, ErrorKind::kUsage);
  options.ranks = 2;
  options.workload = "solitaire";
  golden::expect_text(run(options).error().remedy);
  options.workload = "nccl";
  options.steps = 0;
  EXPECT_EQ(run(options).error().kind, ErrorKind::kUsage);
  options.steps = 1;
  options.ranks_per_node = 3;
  EXPECT_EQ(run(options).error().kind, ErrorKind::kUsage) << "two ranks on nodes of three";
  options.ranks_per_node = 1;
  options.servers = some_servers();
  options.servers->faults = {{2, "hangs"}};
  EXPECT_EQ(run(options).error().kind, ErrorKind::kUsage) << "a fault of the third of two nodes";
  options.servers->faults.clear();
  options.trace = false;
  EXPECT_EQ(run(options).error().kind, ErrorKind::kUsage) << "without agents";
  options.servers.reset();
  options.out_dir.clear();
  EXPECT_EQ(run(options).error().kind, ErrorKind::kUsage);
  EXPECT_FALSE(std::filesystem::exists(testing::TempDir() + "never_made"));
}

}  // namespace
}  // namespace stalltrace::lab
