// SPDX-License-Identifier: Apache-2.0
// Boxes followed from a made-up host to rows: live ones, those that are spoilt meanwhile, and what the dead left.
#include "blackbox/follow/follower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "blackbox/testing/box_host.h"
#include "model/memory_source.h"

namespace stalltrace::blackbox {
namespace {

using blackbox::MadeBox;
namespace fs = std::filesystem;

constexpr pid_t kGone = 6000;

class Tracker : public BoxHost {
 protected:
  Tracker() {
    node_.node_id = 5;
    node_.clock_offset_ns = measure_utc_offset_ns();
  }
  void begin() {
    add_process(kPid);
    Process process;
    process.pid = kPid;
    processes_.add(process);
    tracker_.add_process(kPid);
  }
  /// A round that looks for boxes and at open events, which a tracer does once a second.
  void round() { tracker_.finish(monotonic_now_ns()); }
  /// A moment ago, as events bear it.
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
    tracker_.deliver_losses();
    std::map<std::string, uint64_t> counts;
    const auto all = sink_.losses();
    for (const Loss& loss : *all) {
      counts[loss.source] = loss.count;
    }
    return counts;
  }
  [[nodiscard]] std::string left(pid_t pid = kGone) const { return folder_of(kPid) + "/" + name_of(pid); }

  Node node_;
  Procfs procfs_{root_};
  MemorySource sink_;
  EventIds ids_{5};
  ProcessRegistry processes_{sink_};
  CallPairing merge_{ids_, sink_};
  std::vector<std::string> notes_;
  ProfilerFollower tracker_{
      node_, procfs_, {}, processes_, merge_, sink_, [this](const std::string& text) { notes_.push_back(text); }};
};

TEST_F(Tracker, ALiveBoxIsRowsAsItGrows) {
  begin();
  MadeBox box = box_of(kPid);
  box.append(MadeBox::collective(0, ago_ns(900), ago_ns(890)));
  box.write(path_of(kPid));
  const BoxWriter writer(path_of(kPid));
  round();
  ASSERT_EQ(calls().size(), 1);
  EXPECT_EQ(calls()[0].seq, 0);
  EXPECT_EQ(calls()[0].completion, Completion::kProfiler);
  EXPECT_EQ(process(kPid)->rank, 1) << "learnt from the box";
  box.append(MadeBox::collective(1, ago_ns(800), ago_ns(790)));
  st_box_event open = MadeBox::collective(2, ago_ns(700), 0);
  open.u.coll.ops_started = 1;
  box.put(0, open, ST_BOX_ENDED);
  box.write(path_of(kPid));
  round();
  round();
  ASSERT_EQ(calls().size(), 3) << "each once";
  EXPECT_EQ(std::ranges::count(calls(), Completion::kOpen, &Collective::completion), 1);
  EXPECT_EQ(notes_, std::vector<std::string>{});
}

TEST_F(Tracker, WhatTheProbesMayNotHaveToldYetWaits) {
  begin();
  MadeBox box = box_of(kPid);
  const uint64_t start_ns = ago_ns(100);
  box.append(MadeBox::collective(0, start_ns, ago_ns(90)));
  box.write(path_of(kPid));
  const BoxWriter writer(path_of(kPid));
  tracker_.round(static_cast<int64_t>(start_ns) - 1);
  EXPECT_EQ(calls().size(), 0);
  tracker_.round(static_cast<int64_t>(start_ns) + 1);
  EXPECT_EQ(calls().size(), 1);
}

TEST_F(Tracker, ABoxThatIsCutShortMeanwhileIsLeftOutAndSaid) {
  begin();
  MadeBox box = box_of(kPid);
  box.append(MadeBox::collective(0, ago_ns(900), ago_ns(890)));
  box.write(path_of(kPid));
  const BoxWriter writer(path_of(kPid));
  round();
  fs::resize_file(path_of(kPid), 100);
  round();
  round();
  ASSERT_EQ(notes_.size(), 1);
  EXPECT_NE(notes_[0].find("a profiler file is left out"), std::string::npos) << notes_[0];
  EXPECT_EQ(calls().size(), 1);
}

TEST_F(Tracker, ABoxThatIsDeletedWhileItsProcessLivesIsReadOn) {
  begin();
  MadeBox box = box_of(kPid);
  box.append(MadeBox::collective(0, ago_ns(900), ago_ns(890)));
  box.write(path_of(kPid));
  const BoxWriter writer(path_of(kPid));
  tracker_.round(monotonic_now_ns());
  fs::remove(path_of(kPid));
  round();
  EXPECT_EQ(calls().size(), 1);
  EXPECT_EQ(notes_, std::vector<std::string>{});
}

TEST_F(Tracker, ALyingBoxMakesNoRowOfAnothersTime) {
  begin();
  MadeBox box = box_of(kPid);
  box.append(MadeBox::collective(0, ~uint64_t{0}, 1));         // begins after all time
  box.append(MadeBox::collective(1, ago_ns(10), ago_ns(20)));  // ends before it begins
  box.append(MadeBox::collective(~uint64_t{0}, ago_ns(10), ago_ns(5)));
  box.ring[2].type = 0xff;
  box.communicators[0].ranks = -7;
  box.communicators[0].rank = 1 << 30;
  box.write(path_of(kPid));
  const BoxWriter writer(path_of(kPid));
  round();
  for (const Collective& row : calls()) {
    EXPECT_LE(row.timestamp_ns, utc_now_ns());
    EXPECT_GE(row.duration_ns.value_or(0), 0);
    EXPECT_FALSE(row.rank);
  }
  EXPECT_FALSE(process(kPid)->rank);
  box.header.ring_head = uint64_t{1} << 62;
  box.write(path_of(kPid));
  round();  // and comes to an end
  EXPECT_GT(losses()["profiler:overwritten"], 1U << 30);
}

TEST_F(Tracker, WhatAProcessLeftThatWasGoneBeforeIsRowsWithItsProcess) {
  begin();
  MadeBox box = box_of(kGone);
  box.append(MadeBox::collective(0, ago_ns(9000), ago_ns(8990)));
  st_box_event open = MadeBox::collective(1, ago_ns(8000), 0);
  open.u.coll.ops_started = 1;
  box.put(0, open, ST_BOX_ENDED);
  box.write(left());
  round();
  ASSERT_TRUE(process(kGone));
  EXPECT_EQ(process(kGone)->cmdline, "train --fast");
  EXPECT_FALSE(process(kGone)->exit_ns) << "nobody outlived it";
  EXPECT_EQ(calls(kGone).size(), 2);
  const size_t rows = calls(kGone).size();
  round();
  EXPECT_EQ(calls(kGone).size(), rows);
}

TEST_F(Tracker, OfThoseThatAreGoneTheOneThatOthersOutlivedDied) {
  begin();
  for (const pid_t pid : {kGone, kGone + 1}) {
    MadeBox box = box_of(pid);
    const int64_t silent_ms = pid == kGone ? 9000 : 4000;
    box.append(MadeBox::collective(0, ago_ns(silent_ms + 10), ago_ns(silent_ms)));
    box.write(left(pid));
  }
  round();
  EXPECT_TRUE(process(kGone)->exit_ns);
  EXPECT_FALSE(process(kGone + 1)->exit_ns);
}

TEST_F(Tracker, TheDeadOfOtherPidNamespacesAreNobodyHere) {
  begin();
  for (int container = 0; container < 2; ++container) {
    MadeBox box = box_of(kPid);  // each calls itself as a process here is called
    box.header.pid_namespace = 1 + static_cast<uint64_t>(container);
    box.header.process_start_ticks = kStart + 1;
    box.append(MadeBox::collective(0, ago_ns(9000), ago_ns(8990)));
    box.write(folder_of(kPid) + "/" + name_of(kGone, container));
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

TEST_F(Tracker, AShortProcessIsReadWhenItHasEnded) {
  begin();
  MadeBox box = box_of(kPid);
  box.append(MadeBox::collective(0, ago_ns(900), ago_ns(890)));
  box.write(path_of(kPid));
  tracker_.end_process(kPid);
  round();
  EXPECT_EQ(calls().size(), 1);
}

TEST_F(Tracker, AProcessThatEndsIsReadToItsEndAndNotFoundAgain) {
  begin();
  MadeBox box = box_of(kPid);
  box.append(MadeBox::collective(0, ago_ns(900), ago_ns(890)));
  box.write(path_of(kPid));
  {
    const BoxWriter writer(path_of(kPid));
    round();
    box.append(MadeBox::collective(1, ago_ns(800), ago_ns(790)));
    box.write(path_of(kPid));
  }
  tracker_.end_process(kPid);
  round();
  round();
  EXPECT_EQ(calls().size(), 2);
  EXPECT_FALSE(process(kPid)->exit_ns) << "the kernel tells that, not the box";
}

TEST_F(Tracker, WhatABoxLostIsCountedOnce) {
  begin();
  MadeBox box = box_of(kPid);
  box.header.lost[0] = 3;
  for (uint64_t n = 0; n < MadeBox::kRing + 5; ++n) {
    box.append(MadeBox::collective(n, ago_ns(900), ago_ns(890)));
  }
  box.write(path_of(kPid));
  const BoxWriter writer(path_of(kPid));
  round();
  round();
  EXPECT_EQ(losses()["profiler:no_slot"], 3);
  EXPECT_EQ(losses()["profiler:overwritten"], 5);
}

}  // namespace
}  // namespace stalltrace::blackbox
