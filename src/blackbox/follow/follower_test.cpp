// SPDX-License-Identifier: Apache-2.0
// Files of a simulated host become rows: of live processes, of files that are damaged while they are read, and of dead
// processes.
#include "blackbox/follow/follower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "blackbox/testing/profiler_host.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::blackbox {
namespace {

namespace fs = std::filesystem;

constexpr pid_t kGonePid = 6000;

class Follower : public ProfilerHost {
 protected:
  Follower() {
    node_.node_id = 5;
    node_.clock_offset_ns = measure_utc_offset_ns();
  }
  void begin() {
    add_process(kPid);
    Process process;
    process.pid = kPid;
    processes_.add(process);
    follower_.add_process(kPid, ::getuid());
  }
  /// A round with a search for files and a read of open events, as a tracer does once a second.
  void round() { follower_.finish(monotonic_now_ns()); }
  /// A recent event time.
  static uint64_t ago_ns(int64_t ms) { return static_cast<uint64_t>(monotonic_now_ns() - ms * kNsPerMs); }
  std::vector<Collective> calls(int32_t pid = kPid) {
    std::vector<Collective> rows;
    EXPECT_TRUE(sink_.collectives({}, [&](const Collective& row) {
      if (row.pid == pid) {
        rows.push_back(row);
      }
    }));
    return rows;
  }
  std::optional<Process> process(int32_t pid) {
    const auto all = sink_.processes();
    const auto found = std::ranges::find(*all, pid, &Process::pid);
    return found == all->end() ? std::nullopt : std::optional(*found);
  }
  std::map<std::string, uint64_t> losses() {
    follower_.deliver_losses();
    std::map<std::string, uint64_t> counts;
    const auto all = sink_.losses();
    for (const Loss& loss : *all) {
      counts[loss.source] = loss.count;
    }
    return counts;
  }
  /// A file as the plugin makes it, with `calls` calls 100 us apart, the newest a second ago.
  static MadeProfilerFile large_file(uint64_t calls, uint64_t phase, pid_t pid = kPid) {
    MadeProfilerFile file = file_of(pid);
    file.resize(16384, 65536);
    for (uint64_t n = 0; n < calls; ++n) {
      const uint64_t start_ns = ago_ns(1000) - (calls - n) * 100'000;
      file.put(n, MadeProfilerFile::collective(n, start_ns, phase == ST_BOX_QUIET ? start_ns + 50'000 : 0), phase);
      if (phase == ST_BOX_QUIET) {
        file.append_slot(n);
      }
    }
    return file;
  }
  [[nodiscard]] std::string left(pid_t pid = kGonePid) const { return folder_of(kPid) + "/" + name_of(pid); }

  Node node_;
  Procfs procfs_{root_};
  MemorySource sink_;
  EventIds ids_{5};
  ProcessRegistry processes_{sink_};
  CallPairing pairing_{ids_, sink_};
  std::vector<std::string> notes_;
  ProfilerFollower follower_{
      node_, procfs_, {}, processes_, pairing_, sink_, [this](const std::string& text) { notes_.push_back(text); }};
};

TEST_F(Follower, ALiveFileIsRowsAsItGrows) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.append(MadeProfilerFile::collective(0, ago_ns(900), ago_ns(890)));
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  round();
  ASSERT_EQ(calls().size(), 1);
  EXPECT_EQ(calls()[0].seq, 0);
  EXPECT_EQ(calls()[0].completion, Completion::kProfiler);
  EXPECT_EQ(process(kPid)->rank, 1) << "learnt from the file";
  file.append(MadeProfilerFile::collective(1, ago_ns(800), ago_ns(790)));
  st_box_event open = MadeProfilerFile::collective(2, ago_ns(700), 0);
  open.u.coll.ops_started = 1;
  file.put(0, open, ST_BOX_ENDED);
  file.write(path_of(kPid));
  round();
  round();
  ASSERT_EQ(calls().size(), 3) << "each once";
  EXPECT_EQ(std::ranges::count(calls(), Completion::kOpen, &Collective::completion), 1);
  EXPECT_EQ(notes_, std::vector<std::string>{});
}

TEST_F(Follower, CallsWhoseProbeRowMayBeMissingWait) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  const uint64_t start_ns = ago_ns(100);
  file.append(MadeProfilerFile::collective(0, start_ns, ago_ns(90)));
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  follower_.round(static_cast<int64_t>(start_ns) - 1);
  EXPECT_EQ(calls().size(), 0);
  follower_.round(static_cast<int64_t>(start_ns) + 1);
  EXPECT_EQ(calls().size(), 1);
}

TEST_F(Follower, AFileThatBecomesShorterIsLeftOutWithANote) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.append(MadeProfilerFile::collective(0, ago_ns(900), ago_ns(890)));
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  round();
  fs::resize_file(path_of(kPid), 100);
  round();
  round();
  ASSERT_EQ(notes_.size(), 1);
  golden::expect_text(notes_[0]);
  EXPECT_EQ(calls().size(), 1);
}

TEST_F(Follower, AFileThatIsDeletedWhileItsProcessLivesIsReadOn) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.append(MadeProfilerFile::collective(0, ago_ns(900), ago_ns(890)));
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  follower_.round(monotonic_now_ns());
  fs::remove(path_of(kPid));
  round();
  EXPECT_EQ(calls().size(), 1);
  EXPECT_EQ(notes_, std::vector<std::string>{});
}

TEST_F(Follower, AFileWithInvalidNumbersMakesNoRowOfAnothersTime) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.append(MadeProfilerFile::collective(0, ~uint64_t{0}, 1));         // starts after the latest valid time
  file.append(MadeProfilerFile::collective(1, ago_ns(10), ago_ns(20)));  // ends before it begins
  file.append(MadeProfilerFile::collective(~uint64_t{0}, ago_ns(10), ago_ns(5)));
  file.ring[2].type = 0xff;
  file.communicators[0].ranks = -7;
  file.communicators[0].rank = 1 << 30;
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  round();
  for (const Collective& row : calls()) {
    EXPECT_LE(row.timestamp_ns, utc_now_ns());
    EXPECT_GE(row.duration_ns.value_or(0), 0);
    EXPECT_FALSE(row.rank);
  }
  EXPECT_FALSE(process(kPid)->rank);
  file.header.ring_head = uint64_t{1} << 62;
  file.write(path_of(kPid));
  round();  // and terminates
  EXPECT_GT(losses()[users_loss("profiler:overwritten", ::getuid())], 1U << 30);
}

TEST_F(Follower, WhatAProcessLeftThatWasGoneBeforeIsRowsWithItsProcess) {
  begin();
  MadeProfilerFile file = file_of(kGonePid);
  file.append(MadeProfilerFile::collective(0, ago_ns(9000), ago_ns(8990)));
  st_box_event open = MadeProfilerFile::collective(1, ago_ns(8000), 0);
  open.u.coll.ops_started = 1;
  file.put(0, open, ST_BOX_ENDED);
  file.write(left());
  round();
  ASSERT_TRUE(process(kGonePid));
  EXPECT_EQ(process(kGonePid)->cmdline, "train --fast");
  EXPECT_FALSE(process(kGonePid)->exit_ns) << "no other rank outlived it";
  EXPECT_EQ(calls(kGonePid).size(), 2);
  const size_t rows = calls(kGonePid).size();
  round();
  EXPECT_EQ(calls(kGonePid).size(), rows);
}

TEST_F(Follower, OfThoseThatAreGoneTheOneThatOthersOutlivedDied) {
  begin();
  for (const pid_t pid : {kGonePid, kGonePid + 1}) {
    MadeProfilerFile file = file_of(pid);
    const int64_t silent_ms = pid == kGonePid ? 9000 : 4000;
    file.append(MadeProfilerFile::collective(0, ago_ns(silent_ms + 10), ago_ns(silent_ms)));
    file.write(left(pid));
  }
  round();
  EXPECT_TRUE(process(kGonePid)->exit_ns);
  EXPECT_FALSE(process(kGonePid + 1)->exit_ns);
}

TEST_F(Follower, TheDeadOfOtherPidNamespacesAreNotKnownHere) {
  begin();
  for (int container = 0; container < 2; ++container) {
    MadeProfilerFile file = file_of(kPid);  // each has in its namespace the number of a process here
    file.header.pid_namespace = 1 + static_cast<uint64_t>(container);
    file.header.process_start_ticks = kStart + 1;
    file.append(MadeProfilerFile::collective(0, ago_ns(9000), ago_ns(8990)));
    file.write(folder_of(kPid) + "/" + name_of(kGonePid, container));
  }
  round();
  std::set<int32_t> pids;
  const auto all = sink_.processes();
  for (const Process& row : *all) {
    pids.insert(row.pid);
  }
  EXPECT_EQ(pids, (std::set<int32_t>{kPid, (1 << 22) + 1, (1 << 22) + 2}));
  EXPECT_EQ(calls(kPid).size(), 0);
  EXPECT_EQ(calls((1 << 22) + 1).size(), 1);
}

TEST_F(Follower, AShortProcessIsReadWhenItHasEnded) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.append(MadeProfilerFile::collective(0, ago_ns(900), ago_ns(890)));
  file.write(path_of(kPid));
  follower_.end_process(kPid);
  round();
  EXPECT_EQ(calls().size(), 1);
}

TEST_F(Follower, AProcessThatEndsIsReadToItsEndAndNotFoundAgain) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.append(MadeProfilerFile::collective(0, ago_ns(900), ago_ns(890)));
  file.write(path_of(kPid));
  {
    const ProfilerFileWriter writer(path_of(kPid));
    round();
    file.append(MadeProfilerFile::collective(1, ago_ns(800), ago_ns(790)));
    file.write(path_of(kPid));
  }
  follower_.end_process(kPid);
  round();
  round();
  EXPECT_EQ(calls().size(), 2);
  EXPECT_FALSE(process(kPid)->exit_ns) << "the kernel reports that, not the file";
}

st_box_event waiting_operation(uint64_t start_ns) {
  st_box_event operation{};
  operation.type = ST_BOX_PROXY_OP;
  operation.start_ns = start_ns;
  operation.communicator = 1;
  return operation;
}

TEST_F(Follower, AWaitOfAnOpenOperationIsOneRowHoweverLongItLasts) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.put(0, waiting_operation(ago_ns(900)), ST_BOX_OPEN);
  st_box_event step = waiting_operation(ago_ns(900));
  step.type = ST_BOX_PROXY_STEP;
  step.parent = file.slots[0].id;
  step.u.proxy_step.state = ST_BOX_WAIT_NETWORK;
  step.u.proxy_step.state_since_ns = ago_ns(800);
  file.put(1, step, ST_BOX_OPEN);
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  const auto steps = [&] {
    size_t rows = 0;
    EXPECT_TRUE(sink_.proxy_steps({}, [&](const ProxyStep&) { ++rows; }));
    return rows;
  };
  round();
  EXPECT_EQ(steps(), 1);
  for (int n = 0; n < 3; ++n) {
    follower_.round(monotonic_now_ns());  // between two reads of open events
    round();
  }
  EXPECT_EQ(steps(), 1);
  file.slots[1].u.proxy_step.step = 1;
  file.write(path_of(kPid));
  round();
  EXPECT_EQ(steps(), 2) << "the next step's wait";
}

TEST_F(Follower, FoldersAndDeathsBeyondTheBoundsAreLosses) {
  begin();
  constexpr pid_t kMoreFolders = 70;
  constexpr pid_t kMostClosed = 1024;
  const auto leave = [&](pid_t first, pid_t count) {
    for (pid_t pid = first; pid < first + count; ++pid) {
      MadeProfilerFile file = file_of(pid);
      file.header.heartbeat_ns = ago_ns(500);
      file.write(left(pid));
    }
  };
  const auto round_over_all_names = [&] {
    for (int n = 0; n < 40; ++n) {
      round();  // a search opens 64 files of one user
    }
  };
  leave(kGonePid, kMostClosed + 3);
  round_over_all_names();
  EXPECT_EQ(losses()[users_loss(kLostExits, ::getuid())], 3);
  for (pid_t pid = kPid + 1; pid <= kPid + kMoreFolders; ++pid) {
    add_process(pid);
    follower_.add_process(pid, ::getuid());
  }
  EXPECT_EQ(losses()[users_loss(kLostFolders, ::getuid())], kMoreFolders + 1 - 48) << "one for each process";
}

TEST_F(Follower, FilesBeyondTheBoundAreALossAndOthersAreRead) {
  constexpr pid_t kMostFiles = 256;  // of one user
  MadeProfilerFile file;
  for (pid_t pid = kPid; pid < kPid + kMostFiles + 2; ++pid) {
    add_process(pid);
    file = file_of(pid);
    file.append(MadeProfilerFile::collective(0, ago_ns(900), ago_ns(890)));
    file.write(path_of(pid));
    follower_.add_process(pid, ::getuid());
    follower_.end_process(pid);
  }
  round();
  EXPECT_EQ(losses()[users_loss(kLostFiles, ::getuid())], 2);
  EXPECT_EQ(calls(kPid).size(), 1);
  EXPECT_EQ(calls(kPid + kMostFiles - 1).size(), 1);
  EXPECT_EQ(calls(kPid + kMostFiles).size(), 0);
}

TEST_F(Follower, ProcessesBeyondTheBoundAreALoss) {
  begin();
  for (int n = 0; n < 511 + 2; ++n) {
    follower_.add_process(kPid, ::getuid());
  }
  EXPECT_EQ(losses()[users_loss(kLostProcesses, ::getuid())], 2);
  follower_.add_process(kPid, ::getuid() + 1);
  EXPECT_EQ(losses()[users_loss(kLostProcesses, ::getuid() + 1)], 0) << "another user has a share of its own";
}

TEST_F(Follower, WhatAFileLostIsCountedOnce) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.header.lost[0] = 3;
  for (uint64_t n = 0; n < MadeProfilerFile::kRing + 5; ++n) {
    file.append(MadeProfilerFile::collective(n, ago_ns(900), ago_ns(890)));
  }
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  round();
  round();
  EXPECT_EQ(losses()[users_loss("profiler:no_slot", ::getuid())], 3);
  EXPECT_EQ(losses()[users_loss("profiler:overwritten", ::getuid())], 5);
}

TEST_F(Follower, ACallHasOneRowHoweverLongItsSlotKeepsIt) {
  begin();
  constexpr uint64_t kCalls = 6000;
  struct Case {
    const char* what;
    uint64_t phase;
    Completion completion;
  };
  for (const Case& given : {Case{"ended", ST_BOX_QUIET, Completion::kProfiler},
                            Case{"without a part that would show its end", ST_BOX_ENDED, Completion::kUnobserved}}) {
    const pid_t pid = kPid + 1 + static_cast<pid_t>(given.phase);
    add_process(pid);
    large_file(kCalls, given.phase, pid).write(path_of(pid));
    const ProfilerFileWriter writer(path_of(pid));
    follower_.add_process(pid, ::getuid());
    for (int n = 0; n < 5; ++n) {
      round();
    }
    follower_.end_process(pid);
    for (int n = 0; n < 5; ++n) {
      round();
    }
    EXPECT_EQ(calls(pid).size(), kCalls) << given.what;
    EXPECT_EQ(std::ranges::count(calls(pid), given.completion, &Collective::completion), kCalls) << given.what;
  }
}

TEST_F(Follower, AFileOfMoreThanOneRoundThatWasGoneHasEachCallOnce) {
  begin();
  large_file(16000, ST_BOX_QUIET, kGonePid).write(left());
  for (int n = 0; n < 3; ++n) {
    follower_.round(monotonic_now_ns());
  }
  round();
  EXPECT_EQ(calls(kGonePid).size(), 16000);
}

TEST_F(Follower, ARoundReadsAFileToItsEndIfThereIsTime) {
  begin();
  constexpr uint64_t kCalls = 20'000;
  MadeProfilerFile file = file_of(kPid);
  file.resize(1024, 65536);
  for (uint64_t n = 0; n < kCalls; ++n) {
    file.append(MadeProfilerFile::collective(n, ago_ns(9000) + n * 1000, ago_ns(9000) + n * 1000 + 500));
  }
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  const int64_t began_ns = monotonic_now_ns();
  follower_.round(began_ns);
  EXPECT_TRUE(calls().size() == kCalls || monotonic_now_ns() - began_ns >= 100 * kNsPerMs) << calls().size();
}

TEST_F(Follower, WhatIsNotReadAtTheEndIsALoss) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.append(MadeProfilerFile::collective(0, ago_ns(900), ago_ns(890)));
  file.append(MadeProfilerFile::collective(1, ago_ns(900), ago_ns(890)));
  file.ring[1].commit = ST_BOX_RING_WRITING(1);  // and never completed while it is read
  file.write(path_of(kPid));
  const ProfilerFileWriter writer(path_of(kPid));
  follower_.round(monotonic_now_ns());
  EXPECT_EQ(losses()[users_loss("profiler:unread", ::getuid())], 0) << "it may become whole";
  follower_.finish(monotonic_now_ns());
  EXPECT_EQ(losses()[users_loss("profiler:unread", ::getuid())], 1);
}

TEST_F(Follower, TwoThatAreGoneWithOneNumberAreTwoProcesses) {
  begin();
  for (int number = 0; number < 2; ++number) {
    MadeProfilerFile file = file_of(kGonePid);
    file.header.created_ns += static_cast<uint64_t>(number);
    file.append(MadeProfilerFile::collective(0, ago_ns(9000), ago_ns(8990)));
    file.write(folder_of(kPid) + "/" + name_of(kGonePid, number));
  }
  round();
  EXPECT_TRUE(process(kGonePid));
  EXPECT_TRUE(process((1 << 22) + 1));
  EXPECT_EQ(calls(kGonePid).size(), 1);
  EXPECT_EQ(calls((1 << 22) + 1).size(), 1);
}

TEST_F(Follower, AFileWithTheNumberOfATracedProcessIsALoss) {
  begin();
  MadeProfilerFile file = file_of(kPid);
  file.header.process_start_ticks = kStart + 1;
  file.append(MadeProfilerFile::collective(0, ago_ns(9000), ago_ns(8990)));
  file.write(left());
  round();
  round();
  EXPECT_EQ(calls().size(), 0);
  EXPECT_EQ(losses()[users_loss("profiler:pid_in_use", ::getuid())], 1);
}

TEST_F(Follower, AFileThatWasReadIsNoLossWhenItsFolderIsSearchedAgain) {
  begin();
  add_process(kPid + 1);
  const std::string other = fs::path(folder_of(kPid + 1)).parent_path();
  fs::remove_all(other);
  fs::create_directory_symlink(fs::path(folder_of(kPid)).parent_path(), other);  // has the same folder
  MadeProfilerFile file = file_of(kPid);
  file.append(MadeProfilerFile::collective(0, ago_ns(900), ago_ns(890)));
  file.write(path_of(kPid));
  follower_.end_process(kPid);  // the folder is closed
  round();
  follower_.add_process(kPid + 1, ::getuid());
  round();
  EXPECT_EQ(calls().size(), 1);
  EXPECT_EQ(losses()[users_loss("profiler:pid_in_use", ::getuid())], 0);
}

}  // namespace
}  // namespace stalltrace::blackbox
