// SPDX-License-Identifier: Apache-2.0
// What is read of a program that had a rank's core, on a fake host; what is not read, and what a user may take.
#include "capture/decode/competitors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/memory_source.h"

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int32_t kRank = 100;
constexpr int32_t kStranger = 4711;

class CompetitorsTest : public testing::Test {
 protected:
  CompetitorsTest() {
    fs::remove_all(root_);
    traced_.add({.node_id = node_.node_id, .pid = kRank, .start_ns = 1});
  }
  ~CompetitorsTest() override { fs::remove_all(root_); }

  struct Fake {
    std::string words = "python3 preprocess.py --shard 3";
    int32_t parent = 1;
    int64_t start_ticks = 500;
    std::string name = "python3";
    uint32_t user = 1000;
    std::string cgroups = "0::/user.slice/user-1000.slice\n";
  };
  void put(int32_t pid, const std::string& file, const std::string& text) const {
    const fs::path path = root_ / std::to_string(pid) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  void run(int32_t pid, Fake fake) const {
    const std::string number = std::to_string(pid);
    put(pid, "stat",
        number + " (" + fake.name + ") R " + std::to_string(fake.parent) + " 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 " +
            std::to_string(fake.start_ticks) + " 0 0\n");
    std::ranges::replace(fake.words, ' ', '\0');
    put(pid, "cmdline", fake.words);
    put(pid, "cgroup", fake.cgroups);
    const std::string user = std::to_string(fake.user);
    put(pid, "status", "Uid:\t" + user + "\t" + user + "\t" + user + "\t" + user + "\n");
    put(pid, "task/" + number + "/comm", fake.name + "\n");
  }
  void end(int32_t pid) const { fs::remove_all(root_ / std::to_string(pid)); }

  static WaitSpan wait_behind(int32_t pid, int64_t by_waited_ns = 20 * kNsPerMs) {
    WaitSpan wait{.pid = kRank, .tid = kRank};
    wait.kind = WaitKind::kRunnable;
    wait.by_pid = pid;
    wait.by_waited_ns = by_waited_ns;
    return wait;
  }
  void read_all(int rounds = 1) {
    for (int i = 0; i < rounds; ++i) {
      now_ns_ += Competitors::kReadEveryNs;
      competitors_.read(now_ns_, [] {});
    }
  }
  void pass(int64_t ns) {
    now_ns_ += ns;
    competitors_.read(now_ns_, [] {});
  }
  std::vector<Competitor> rows() { return sink_.competitors().value(); }
  Competitor only() {
    const std::vector<Competitor> all = rows();
    EXPECT_THAT(all, SizeIs(1));
    return all.empty() ? Competitor{} : all[0];
  }
  std::vector<std::string> lost() {
    std::vector<std::string> sources;
    for (const Loss& loss : shares_.losses(node_.node_id)) {
      sources.push_back(loss.source);
    }
    return sources;
  }

  const fs::path root_ = fs::path(testing::TempDir()) / ("competitors_test_" + std::to_string(::getpid()));
  Node node_{.node_id = 5};
  MemorySource sink_;
  Procfs procfs_{root_.string()};
  ProcessRegistry traced_{sink_};
  UserShares shares_;
  Competitors competitors_{node_, procfs_, traced_, shares_, sink_};
  int64_t now_ns_ = 1000 * kNsPerSecond;
};

/// The environment of a rank of a job on a machine of two, as torchrun sets it.
std::string of_rank(int rank, const std::string& port) {
  const std::string words =
      "RANK=" + std::to_string(rank) + " WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none MASTER_ADDR=node0 MASTER_PORT=";
  std::string text = words + port + " ";
  std::ranges::replace(text, ' ', '\0');
  return text;
}

/// An agent in a container sees one rank of several on its host.
TEST_F(CompetitorsTest, ARankOfTheSameJobIsPartOfIt) {
  traced_.add({.node_id = node_.node_id,
               .pid = kRank,
               .start_ns = 1,
               .rank = 0,
               .world_size = 2,
               .job_id = "none",
               .settings = "MASTER_ADDR=node0\nMASTER_PORT=29500\nNCCL_DEBUG=INFO"});
  for (const auto& [pid, port] : {std::pair(kStranger, "29500"), std::pair(kStranger + 1, "29501")}) {
    run(pid, {});
    put(pid, "environ", of_rank(1, port));
    competitors_.note(wait_behind(pid));
  }
  read_all();
  const std::vector<Competitor> all = rows();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].rank_pid, kRank);
  EXPECT_EQ(all[1].rank_pid, 0) << "a rank of another job with that name";
}

TEST_F(CompetitorsTest, AProgramHasOneRowWithoutItsSecrets) {
  run(kStranger, {.words = "python3 preprocess.py --token abc"});
  competitors_.note(wait_behind(kStranger));
  EXPECT_THAT(rows(), IsEmpty()) << "not while a record is decoded";
  read_all();
  const Competitor row = only();
  EXPECT_EQ(row.node_id, 5U);
  EXPECT_EQ(row.pid, kStranger);
  EXPECT_EQ(row.cmdline, "python3 preprocess.py --token ***");
  EXPECT_EQ(row.cgroup, "/user.slice/user-1000.slice");
  EXPECT_EQ(row.rank_pid, 0);
  EXPECT_EQ(row.exit_ns, std::nullopt);
  competitors_.note(wait_behind(kStranger));
  read_all(100);
  EXPECT_EQ(only().cmdline, row.cmdline);
}

TEST_F(CompetitorsTest, OnlyOfWaitsThatCount) {
  run(kStranger, {});
  WaitSpan blocked = wait_behind(kStranger);
  blocked.kind = WaitKind::kBlocked;
  competitors_.note(blocked);
  competitors_.note(wait_behind(kStranger, Competitors::kNamedFromNs - 1));
  competitors_.note(wait_behind(0));
  run(kRank, {});
  competitors_.note(wait_behind(kRank));
  read_all(10);
  EXPECT_THAT(rows(), IsEmpty());
  competitors_.note(wait_behind(kStranger, Competitors::kNamedFromNs));
  read_all();
  EXPECT_EQ(only().pid, kStranger);
}

TEST_F(CompetitorsTest, WhatDescendsFromARankIsKnownAsThat) {
  run(200, {.parent = kRank});
  run(201, {.words = "ffmpeg -i film", .parent = 200, .name = "ffmpeg"});
  competitors_.note(wait_behind(201));
  read_all();
  EXPECT_EQ(only().rank_pid, kRank);
}

TEST_F(CompetitorsTest, ItsEndAndTheNextOfThatNumber) {
  run(kStranger, {});
  competitors_.note(wait_behind(kStranger));
  read_all();
  run(kStranger, {.words = "second", .start_ticks = 900});
  pass(Competitors::kCheckNs);
  EXPECT_EQ(only().exit_ns, now_ns_);
  competitors_.note(wait_behind(kStranger));
  read_all();
  ASSERT_THAT(rows(), SizeIs(2));
  EXPECT_EQ(rows()[1].cmdline, "second");
  EXPECT_EQ(rows()[1].exit_ns, std::nullopt);
}

/// A shell that executes a program keeps its number and its start.
TEST_F(CompetitorsTest, ANewProgramOfTheSameProcess) {
  run(kStranger, {.words = "sh -c 'exec train'", .name = "sh"});
  competitors_.note(wait_behind(kStranger));
  read_all();
  run(kStranger, {.words = "train --fast", .name = "train"});
  pass(Competitors::kCheckNs);
  ASSERT_THAT(rows(), SizeIs(2)) << "waits from before were not the new one's";
  EXPECT_EQ(rows()[0].cmdline, "sh -c 'exec train'");
  EXPECT_EQ(rows()[0].exit_ns, now_ns_);
  EXPECT_EQ(rows()[1].cmdline, "train --fast");
  EXPECT_EQ(rows()[1].start_ns, now_ns_);
  EXPECT_EQ(rows()[1].exit_ns, std::nullopt);
  end(kStranger);
  pass(Competitors::kCheckNs);
  ASSERT_THAT(rows(), SizeIs(2));
  EXPECT_EQ(rows()[1].exit_ns, now_ns_);
}

TEST_F(CompetitorsTest, ANewProgramWithTheNameOfTheOther) {
  run(kStranger, {.words = "python3 wait.py"});
  competitors_.note(wait_behind(kStranger));
  read_all();
  run(kStranger, {.words = "python3 train.py"});
  pass(Competitors::kCheckNs);
  ASSERT_THAT(rows(), SizeIs(2));
  EXPECT_EQ(rows()[1].cmdline, "python3 train.py");
}

/// A later process may have the number of a rank that has ended.
TEST_F(CompetitorsTest, AProcessThatIsTracedIsNoneWhileItLives) {
  run(kStranger, {});
  competitors_.note(wait_behind(kStranger));
  read_all();
  traced_.add({.node_id = node_.node_id, .pid = kStranger, .start_ns = 2});
  pass(Competitors::kCheckNs);
  EXPECT_EQ(only().exit_ns, now_ns_);
  traced_.exited(kStranger, now_ns_, 0);
  run(kStranger, {.words = "second", .start_ticks = 900});
  competitors_.note(wait_behind(kStranger));
  read_all();
  ASSERT_THAT(rows(), SizeIs(2));
  EXPECT_EQ(rows()[1].cmdline, "second");
}

/// It costs little to watch a daemon, and no wait is shown with the command line of another program.
TEST_F(CompetitorsTest, AnIdleOneIsCheckedRarelyButOnceAWaitNamesIt) {
  run(kStranger, {});
  competitors_.note(wait_behind(kStranger));
  read_all();
  pass(Competitors::kIdleNs);
  put(kStranger, "cmdline", "second");
  pass(Competitors::kIdleNs - Competitors::kCheckNs);
  EXPECT_THAT(rows(), SizeIs(1));
  competitors_.note(wait_behind(kStranger));
  pass(Competitors::kReadEveryNs);
  ASSERT_THAT(rows(), SizeIs(2));
  EXPECT_EQ(rows()[1].cmdline, "second");
  end(kStranger);
  pass(Competitors::kCheckNs);
  EXPECT_EQ(rows()[1].exit_ns, now_ns_) << "it is checked often again";
}

/// Daemons live as long as the node.
TEST_F(CompetitorsTest, AProcessThatNoWaitNamesGivesItsRoomToAnother) {
  const auto most = static_cast<int32_t>(UserShares::limits(UserShares::Kind::kCompetitor).of_user);
  for (int32_t pid = 1000; pid < 1000 + most; ++pid) {
    run(pid, {});
    competitors_.note(wait_behind(pid));
  }
  read_all(most);
  pass(Competitors::kIdleNs);
  for (int32_t pid = 1001; pid < 1000 + most; ++pid) {
    competitors_.note(wait_behind(pid));
  }
  run(kStranger, {});
  competitors_.note(wait_behind(kStranger));
  read_all();
  EXPECT_THAT(lost(), IsEmpty());
  ASSERT_THAT(rows(), SizeIs(most + 1));
  const auto row_of = [&](int32_t pid) {
    const std::vector<Competitor> all = rows();
    return *std::ranges::find(all.rbegin(), all.rend(), pid, &Competitor::pid);
  };
  EXPECT_EQ(row_of(1000).exit_ns, now_ns_);
  EXPECT_EQ(row_of(1001).exit_ns, std::nullopt);
  EXPECT_EQ(row_of(kStranger).exit_ns, std::nullopt);
  end(1001);
  pass(Competitors::kCheckNs);
  competitors_.note(wait_behind(1000));
  read_all();
  EXPECT_EQ(row_of(1000).start_ns, now_ns_) << "its first row has ended";
}

TEST_F(CompetitorsTest, AtTheEndTheRestIsReadOrCounted) {
  const auto most = static_cast<int32_t>(Competitors::kReadAtOnce) + 3;
  for (int32_t pid = 1000; pid < 1000 + most; ++pid) {
    run(pid, {});
    competitors_.note(wait_behind(pid));
  }
  competitors_.finish(now_ns_, monotonic_now_ns() + 60 * kNsPerSecond);
  EXPECT_THAT(rows(), SizeIs(most));
  EXPECT_THAT(lost(), IsEmpty());
  run(kStranger, {});
  competitors_.note(wait_behind(kStranger));
  competitors_.finish(now_ns_, 0);
  EXPECT_THAT(rows(), SizeIs(most));
  EXPECT_THAT(lost(), ElementsAre("share:competitor:unknown"));
}

TEST_F(CompetitorsTest, ThreadsOfTheKernelAndProcessesThatHaveEndedHaveNone) {
  run(30, {.words = "", .name = "kcompactd0"});
  competitors_.note(wait_behind(30));
  competitors_.note(wait_behind(31));
  read_all(10);
  EXPECT_THAT(rows(), IsEmpty());
  EXPECT_THAT(lost(), IsEmpty());
}

/// With both versions, a container's processes may differ from their service's in that of the CPU alone.
TEST_F(CompetitorsTest, TheMorePreciseCgroup) {
  run(kStranger, {.cgroups = "4:cpu,cpuacct:/docker/0123456789abcdef0123456789abcdef\n3:memory:/a/much/longer/path/of/"
                             "no/interest/to/this/test\n"
                             "0::/system.slice/docker.service\n"});
  competitors_.note(wait_behind(kStranger));
  read_all();
  EXPECT_EQ(only().cgroup, "/docker/0123456789abcdef0123456789abcdef");
}

TEST_F(CompetitorsTest, AUsersProcessesBeyondItsShareHaveNoRow) {
  const auto most = static_cast<int32_t>(UserShares::limits(UserShares::Kind::kCompetitor).of_user);
  for (int32_t pid = 1000; pid < 1000 + most + 3; ++pid) {
    run(pid, {});
    competitors_.note(wait_behind(pid));
  }
  run(kStranger, {.user = 2000});
  competitors_.note(wait_behind(kStranger));
  read_all(most);
  EXPECT_THAT(rows(), SizeIs(most + 1));
  EXPECT_EQ(rows().back().pid, kStranger) << "another user's";
  EXPECT_THAT(lost(), ElementsAre("share:competitor:1000"));
  end(1000);
  run(5000, {});
  pass(Competitors::kCheckNs);
  competitors_.note(wait_behind(5000));
  read_all();
  EXPECT_EQ(rows().back().pid, 5000) << "there is room again";
}

/// Processes that come and go faster than they are read.
TEST_F(CompetitorsTest, FewAreReadAtOnceAndFewWait) {
  const auto most = static_cast<int32_t>(Competitors::kMostNoted);
  for (int32_t pid = 1000; pid < 1000 + most + 10; ++pid) {
    run(pid, {.user = static_cast<uint32_t>(pid)});
    competitors_.note(wait_behind(pid));
  }
  competitors_.note(wait_behind(1000 + most));
  ASSERT_THAT(lost(), ElementsAre("share:competitor:unknown"));
  EXPECT_EQ(shares_.losses(node_.node_id)[0].count, 10U) << "each process once";
  size_t between = 0;
  now_ns_ += Competitors::kReadEveryNs;
  competitors_.read(now_ns_, [&] { ++between; });
  EXPECT_EQ(between, Competitors::kReadAtOnce) << "the rings are read after each";
  EXPECT_THAT(rows(), SizeIs(Competitors::kReadAtOnce));
  competitors_.read(now_ns_, [] {});
  EXPECT_THAT(rows(), SizeIs(Competitors::kReadAtOnce)) << "too early";
  read_all(most);
  EXPECT_THAT(rows(), SizeIs(most));
}

}  // namespace
}  // namespace stalltrace::capture
