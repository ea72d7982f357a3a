// SPDX-License-Identifier: Apache-2.0
// The practice cluster for real, with a shell script instead of the agent: each fault has its effect, and nothing
// remains after success, failure, interruption and kill -9.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "lab/cluster/host/cgroup.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/lock.h"
#include "lab/cluster/host/network.h"
#include "lab/cluster/host/process.h"
#include "lab/cluster/injection/manual.h"
#include "lab/cluster/run.h"
#include "tests/support/golden_text.h"

namespace stalltrace::lab {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kGoodAgent = R"(#!/bin/sh
echo begun > "$5"
trap 'echo closed >> "$5"; exit 0' INT
printf r >&3
while :; do sleep 0.05; done
)";
constexpr const char* kBrokenAgent = "#!/bin/sh\necho 'cannot load the probes' >&2\nexit 1\n";
constexpr const char* kSilentAgent = "#!/bin/sh\nexec sleep 60\n";

class LabRoot : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      if (std::getenv("CI") != nullptr) {
        FAIL() << "these tests need root, and CI must run them";
      }
      GTEST_SKIP() << "needs root: network namespaces";
    }
    folder_ = testing::TempDir() + "lab_root_" + std::to_string(::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    ASSERT_THAT(existing_namespaces(), IsEmpty()) << "a cluster is up: `stalltrace lab down` first";
    links_before_ = run_command({"ip", "-o", "link"}).value_or("");
  }
  void TearDown() override {
    if (!folder_.empty()) {
      expect_nothing_left();
      fs::remove_all(folder_);
    }
  }

  [[nodiscard]] std::string out() const { return folder_ + "/out"; }

  std::string write_agent(const char* script) const {
    std::string path = folder_ + "/agent";
    std::ofstream(path) << script;
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  /// Two ranks, small and quick.
  [[nodiscard]] RunOptions options(const std::string& fault = "none", int steps = 30) const {
    RunOptions options;
    options.ranks = 2;
    options.steps = steps;
    options.trace = false;
    options.out_dir = out();
    options.faults = {parse_fault(fault).value()};
    options.timeout_ns = 60'000'000'000;
    return options;
  }

  [[nodiscard]] nlohmann::json truth() const {
    return nlohmann::json::parse(read_file(out() + "/truth.json").value_or(""), nullptr, false);
  }

  void expect_nothing_left() const {
    EXPECT_THAT(existing_namespaces(), IsEmpty());
    EXPECT_FALSE(fs::exists(kStateFolder));
    EXPECT_FALSE(fs::exists(out() + "/node0"));
    EXPECT_FALSE(fs::exists(out() + "/node1"));
    EXPECT_EQ(run_command({"ip", "-o", "link"}).value_or("?"), links_before_) << "the host's own network";
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
      const std::string exe = fs::read_symlink(entry.path() / "exe", error).string();
      EXPECT_FALSE(exe.starts_with(folder_)) << entry.path() << " still runs " << exe;
    }
  }

  std::string folder_;
  std::string links_before_;
};

/// Waits for a condition, at most 20 s.
template <typename Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::vector<int> processes_on(int rank) { return processes_in(make_node(rank, "").netns_path); }

int find_process(int rank, const std::string& name) {
  for (const int pid : processes_on(rank)) {
    if (trim(read_file("/proc/" + std::to_string(pid) + "/comm").value_or("")) == name) {
      return pid;
    }
  }
  return 0;
}

int cpus_of(int tid) {
  cpu_set_t set;
  return ::sched_getaffinity(tid, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

TEST_F(LabRoot, RanksTalkAcrossNamespacesAndAgentsAreStoppedInOrder) {
  RunOptions run_options = options();
  run_options.trace = true;
  run_options.agent = write_agent(kGoodAgent);
  const auto outcome = run(run_options);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_TRUE(outcome->completed) << outcome->problem;
  EXPECT_THAT(outcome->warnings, IsEmpty());
  ASSERT_THAT(outcome->recordings, SizeIs(2));
  EXPECT_EQ(read_file(outcome->recordings[1]).value_or(""), "begun\nclosed\n");
  for (const RankOutcome& rank : outcome->ranks) {
    EXPECT_EQ(rank.steps, 30);
    EXPECT_TRUE(rank.status && rank.status->success());
  }
  EXPECT_THAT(truth()["faults"], IsEmpty());
  EXPECT_EQ(truth()["nodes"][1]["pid"], outcome->ranks[1].pid);

  const auto again = run(run_options);
  ASSERT_FALSE(again);
  golden::expect_text(again.error().what, {{folder_, "FOLDER"}});
}

TEST_F(LabRoot, AgentsThatServeGoOnAfterTheJobUntilASignal) {
  RunOptions run_options = options();
  run_options.trace = true;
  run_options.agent = write_agent(kGoodAgent);
  run_options.servers = AgentServers{.token = "secret",
                                     .certificate = "cert",
                                     .key = "key",
                                     .fingerprint = "12ab",
                                     .faults = {},
                                     .hold_ns = 60'000'000'000};
  std::string nodes;
  std::string recording;
  run_options.progress = [&](std::string_view line) {
    if (line.find("Ctrl-C") != std::string_view::npos) {
      nodes = read_file(out() + "/nodes").value_or("");
      recording = read_file(out() + "/node0.db").value_or("");
      ::raise(SIGTERM);
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  const auto outcome = run(run_options);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_TRUE(outcome->completed) << outcome->problem;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(45));
  EXPECT_EQ(nodes, "10.77.0.1:7700\n10.77.0.2:7700\n");
  EXPECT_EQ(recording, "begun\n") << "the agents still run";
  EXPECT_EQ(read_file(outcome->recordings[1]).value_or(""), "begun\nclosed\n");
  EXPECT_FALSE(fs::exists(out() + "/token"));
}

TEST_F(LabRoot, PacketLossDropsPacketsInEveryDirection) {
  for (const char* direction : {"ingress", "egress", "link"}) {
    const auto outcome = run(options(std::string("packet_loss:rank=1,percent=5,start=0s,direction=") + direction, 15));
    ASSERT_TRUE(outcome) << outcome.error().what;
    EXPECT_TRUE(outcome->completed) << outcome->problem;
    const auto fault = truth()["faults"][0];
    EXPECT_GT(fault["packets_dropped"], 0) << direction;
    EXPECT_EQ(fault["link"].is_null(), std::string(direction) != "link");
    EXPECT_GT(fault["to_ns"], fault["from_ns"]);
    fs::remove_all(out());
  }
}

TEST_F(LabRoot, LateRankFindsItsSlowFileOnlyDuringTheFault) {
  RunOptions run_options = options("late_rank:rank=1,ms=30,start=0s,duration=500ms");
  std::vector<std::string> seen;
  run_options.progress = [&](std::string_view line) {
    if (line.starts_with("late_rank")) {
      seen.push_back(read_file(out() + "/node1/slow_ms").value_or("absent"));
    }
  };
  const auto outcome = run(run_options);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_THAT(seen, testing::ElementsAre("30\n", "absent"));
}

TEST_F(LabRoot, StoppedProcessIsStoppedAndGoesOn) {
  RunOptions run_options = options("process_stopped:rank=1,ms=200,every=400ms,start=0s,duration=900ms", 60);
  int seen_stopped = 0;
  run_options.progress = [&](std::string_view line) {
    if (line.ends_with("begins")) {
      const int pid = find_process(1, "nccl-train");
      seen_stopped += eventually([&] { return process_state(pid) == 'T'; }) ? 1 : 0;
    }
  };
  const auto outcome = run(run_options);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_TRUE(outcome->completed) << outcome->problem;
  EXPECT_GE(seen_stopped, 2);
  EXPECT_EQ(truth()["faults"][0]["intervals"].size(), static_cast<size_t>(seen_stopped));
}

TEST_F(LabRoot, CompetitorSharesTheRanksCoreAndLeavesIt) {
  RunOptions run_options = options("cpu_contention:rank=1,start=0s,duration=700ms", 60);
  std::string during;
  std::string after;
  const int all_cpus = cpus_of(0);
  const auto describe = [&] {
    const int rank = find_process(1, "nccl-train");
    return std::string(find_process(1, "stress-cpu") != 0 ? "competitor" : "alone") +
           (cpus_of(rank) == 1 ? ", pinned" : "") + (cpus_of(rank) == all_cpus ? ", free" : "");
  };
  run_options.progress = [&](std::string_view line) {
    if (line.ends_with("begins")) {
      during = describe();
    } else if (line.ends_with("ends")) {
      after = describe();
    }
  };
  const auto outcome = run(run_options);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_THAT(during, HasSubstr("competitor, pinned"));
  EXPECT_EQ(after, "alone, free");
}

TEST_F(LabRoot, AgentThatFailsEndsTheRunWithItsLastWords) {
  RunOptions run_options = options();
  run_options.trace = true;
  run_options.agent = write_agent(kBrokenAgent);
  const auto outcome = run(run_options);
  ASSERT_FALSE(outcome);
  golden::expect_text(outcome.error().what, {{folder_, "FOLDER"}});
}

TEST_F(LabRoot, AgentThatIsNeverReadyIsNotAwaitedForever) {
  RunOptions run_options = options();
  run_options.trace = true;
  run_options.agent = write_agent(kSilentAgent);
  run_options.agent_ready_ns = 300'000'000;
  const auto outcome = run(run_options);
  ASSERT_FALSE(outcome);
  golden::expect_text(outcome.error().what, {{folder_, "FOLDER"}});
}

TEST_F(LabRoot, DeadRankIsAnOutcomeWithTheSurvivorsBounded) {
  RunOptions run_options = options("late_rank:rank=0,ms=1,start=100ms", 100000);
  run_options.after_death_ns = 500'000'000;
  run_options.progress = [](std::string_view line) {
    if (line.ends_with("begins")) {
      ::kill(find_process(1, "nccl-train"), SIGKILL);
    }
  };
  const auto outcome = run(run_options);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_FALSE(outcome->completed);
  EXPECT_EQ(truth()["run"]["completed"], false);
  EXPECT_EQ(outcome->ranks[1].status->signal, SIGKILL);
  EXPECT_THAT(outcome->problem, HasSubstr("rank "));
}

TEST_F(LabRoot, RunPastItsTimeIsEnded) {
  RunOptions run_options = options("none", 100000);
  run_options.timeout_ns = 1'500'000'000;
  const auto outcome = run(run_options);
  ASSERT_TRUE(outcome) << outcome.error().what;
  golden::expect_text(outcome->problem.substr(0, outcome->problem.find(';')));
  EXPECT_TRUE(outcome->ranks[0].ended_by_lab);
}

/// A run in a process of its own, to be signalled. The exit code is 0 for an interrupted run.
pid_t start_run(const RunOptions& options) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto outcome = run(options);
    ::_exit(!outcome && outcome.error().kind == ErrorKind::kInterrupted ? 0 : 1);
  }
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid ? status : -1;
}

TEST_F(LabRoot, InterruptionLeavesRecordingsAndTruthButNothingElse) {
  for (const int signal_number : {SIGINT, SIGTERM}) {
    RunOptions run_options = options("process_stopped:rank=1,ms=60000,start=0s", 100000);
    run_options.trace = true;
    run_options.agent = write_agent(kGoodAgent);
    const pid_t pid = start_run(run_options);
    ASSERT_TRUE(eventually([] { return process_state(find_process(1, "nccl-train")) == 'T'; }));
    ::kill(pid, signal_number);
    EXPECT_EQ(wait_for(pid), 0);
    EXPECT_THAT(truth()["run"]["problem"].get<std::string>(),
                HasSubstr(signal_number == SIGINT ? "SIGINT" : "SIGTERM"));
    EXPECT_EQ(read_file(out() + "/node0.db").value_or(""), "begun\nclosed\n");
    expect_nothing_left();
    fs::remove_all(out());
  }
}

TEST_F(LabRoot, DownCleansUpAfterAKilledRun) {
  RunOptions run_options = options("cpu_contention:rank=1,start=0s", 100000);
  run_options.trace = true;
  run_options.agent = write_agent(kGoodAgent);
  const pid_t pid = start_run(run_options);
  ASSERT_TRUE(eventually([] { return find_process(1, "stress-cpu") != 0; }));

  RunOptions another = options();
  another.out_dir = folder_ + "/second";
  const auto second = run(another);
  ASSERT_FALSE(second);
  EXPECT_FALSE(fs::exists(another.out_dir));
  golden::expect_text(second.error().what, {{std::to_string(pid), "PID"}});
  EXPECT_FALSE(down()) << "not under a live run";

  ::kill(pid, SIGKILL);
  (void)wait_for(pid);
  const auto removed = down();
  ASSERT_TRUE(removed) << removed.error().what;
  EXPECT_THAT(*removed, testing::Contains("stalltrace-node1"));
  EXPECT_THAT(down().value(), IsEmpty());
}

TEST_F(LabRoot, DownRemovesTheTokenAndTheKeyOfAKilledRun) {
  RunOptions run_options = options("none", 100000);
  run_options.trace = true;
  run_options.agent = write_agent(kGoodAgent);
  run_options.servers =
      AgentServers{.token = "secret", .certificate = "c", .key = "k", .fingerprint = "f", .faults = {}};
  const pid_t pid = start_run(run_options);
  ASSERT_TRUE(eventually([] { return find_process(1, "nccl-train") != 0; }));
  ASSERT_TRUE(fs::exists(out() + "/token"));
  ::kill(pid, SIGKILL);
  (void)wait_for(pid);
  const auto removed = down();
  ASSERT_TRUE(removed) << removed.error().what;
  for (const std::string_view name : kServerFiles) {
    EXPECT_FALSE(fs::exists(fmt::format("{}/{}", out(), name))) << name;
  }
}

TEST_F(LabRoot, TheNextRunMakesTheControlGroupThatAKilledOneLeft) {
  const std::string throttled = "cpu_contention:rank=1,how=throttle,quota=50,start=0s";
  const pid_t pid = start_run(options(throttled, 100000));
  const auto in_group = [] {
    const int rank = find_process(1, "nccl-train");
    const std::string groups = rank == 0 ? "" : read_file(fmt::format("/proc/{}/cgroup", rank)).value_or("");
    return groups.find("/stalltrace-lab-") != std::string::npos;
  };
  ASSERT_TRUE(eventually(in_group));
  ::kill(pid, SIGKILL);
  (void)wait_for(pid);

  RunOptions next = options(throttled);
  next.out_dir = folder_ + "/next";
  const auto outcome = run(next);
  ASSERT_TRUE(outcome) << outcome.error().what;
  EXPECT_THAT(remove_cgroups(), IsEmpty());
}

TEST_F(LabRoot, TheNextRunClearsWhatAKilledOneLeft) {
  const pid_t pid = start_run(options("none", 100000));
  ASSERT_TRUE(eventually([] { return find_process(1, "nccl-train") != 0; }));
  ::kill(pid, SIGKILL);
  (void)wait_for(pid);
  ASSERT_THAT(existing_namespaces(), SizeIs(3));

  RunOptions next = options();
  next.out_dir = folder_ + "/next";
  std::string reported;
  next.progress = [&reported](std::string_view line) { reported += std::string(line) + "\n"; };
  const auto outcome = run(next);
  ASSERT_TRUE(outcome) << outcome.error().what;
  golden::expect_text(reported.substr(0, reported.find('\n')), {{folder_, "FOLDER"}});
  EXPECT_THAT(existing_namespaces(), IsEmpty());
}

TEST_F(LabRoot, ByHandUpFaultClearDown) {
  golden::expect_text(apply_fault(parse_fault("late_rank:rank=0").value()).error().what);
  const auto nodes = up({.ranks = 2});
  ASSERT_TRUE(nodes) << nodes.error().what;
  ASSERT_THAT(*nodes, SizeIs(2));
  golden::expect_text(up({.ranks = 2}).error().remedy);
  const auto beside = run(options());
  ASSERT_FALSE(beside);
  golden::expect_text(beside.error().what);
  golden::expect_text(beside.error().remedy);

  SpawnOptions sleeper;
  sleeper.argv = {"sleep", "60"};
  sleeper.netns_path = "/run/netns/" + (*nodes)[1].netns;
  auto process = Subprocess::spawn(sleeper);
  ASSERT_TRUE(process) << process.error().what;
  const int pid = process->pid();

  ASSERT_TRUE(apply_fault(parse_fault("packet_loss:rank=1").value()));
  ASSERT_TRUE(apply_fault(parse_fault("late_rank:rank=1").value()));
  ASSERT_TRUE(apply_fault(parse_fault("cpu_contention:rank=1").value()));
  ASSERT_TRUE(apply_fault(parse_fault("process_stopped:rank=1").value()));
  EXPECT_FALSE(apply_fault(parse_fault("late_rank:rank=1,start=1s").value())) << "no schedule by hand";
  const std::vector<std::string> list = {"ip", "netns", "exec", (*nodes)[1].netns, "nft", "list", "ruleset"};
  EXPECT_THAT(run_command(list).value_or(""), HasSubstr("numgen"));
  EXPECT_EQ(read_file((*nodes)[1].folder + "/slow_ms").value_or(""), "80\n");
  EXPECT_NE(find_process(1, "stress-cpu"), 0);
  EXPECT_TRUE(eventually([&] { return process_state(pid) == 'T'; }));

  const auto cleared = clear_faults();
  ASSERT_TRUE(cleared) << cleared.error().what;
  EXPECT_EQ(run_command(list).value_or("?"), "");
  EXPECT_FALSE(fs::exists((*nodes)[1].folder + "/slow_ms"));
  EXPECT_EQ(find_process(1, "stress-cpu"), 0);
  EXPECT_TRUE(eventually([&] { return process_state(pid) == 'S'; }));

  ASSERT_TRUE(down());
  const auto ended = process->wait_for(std::chrono::seconds(5));
  ASSERT_TRUE(ended && *ended);
  EXPECT_EQ((*ended)->signal, SIGKILL) << "down ends what runs on the nodes";
}

}  // namespace
}  // namespace stalltrace::lab
