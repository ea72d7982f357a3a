// SPDX-License-Identifier: Apache-2.0
// The content of a recording made from profiler files alone.
#include "blackbox/import.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <span>
#include <variant>

#include "blackbox/testing/made_profiler_file.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::blackbox {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

class ImportFiles : public ::testing::Test {
 protected:
  ImportFiles() {
    char name[] = "/tmp/stalltrace-import-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~ImportFiles() override { std::filesystem::remove_all(folder_); }

  std::string save(const MadeProfilerFile& file, const std::string& name) {
    file.write(folder_ + "/" + name);
    return folder_ + "/" + name;
  }
  Result<ImportSummary> import(const std::vector<std::string>& paths) {
    return import_profiler_files(paths, rows_, [&](const Error& error) { notes_.push_back(error.what); });
  }
  std::vector<Collective> collectives() {
    std::vector<Collective> rows;
    EXPECT_TRUE(rows_.collectives({}, [&](const Collective& row) { rows.push_back(row); }));
    return rows;
  }

  std::string folder_;
  MemorySource rows_;
  std::vector<std::string> notes_;
};

MadeProfilerFile file_of(uint32_t pid, int32_t rank) {
  MadeProfilerFile file;
  file.header.pid = pid;
  file.header.env_rank = rank;
  file.header.created_ns += pid;
  file.communicators[0].rank = rank;
  return file;
}

TEST_F(ImportFiles, LaunchAndTrueDurationSideBySide) {
  MadeProfilerFile file;
  file.append(MadeProfilerFile::collective(3, 2 * kSecond, 2 * kSecond + 7'454'000));
  ASSERT_TRUE(import({save(file, "a")}));
  const auto rows = collectives();
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].op, Operation::kAllReduce);
  EXPECT_EQ(rows[0].timestamp_ns, 1'769'827'621'000'000'000);
  EXPECT_EQ(rows[0].duration_ns, 7'454'000);
  EXPECT_EQ(rows[0].launch_ns, 5000);
  EXPECT_EQ(rows[0].completion, Completion::kProfiler);
  EXPECT_EQ(rows[0].seq, 3);
  EXPECT_EQ(rows[0].rank, 1);
  EXPECT_EQ(rows[0].rank_source, RankSource::kPlugin);
  EXPECT_EQ(rows[0].nranks, 2);
  EXPECT_EQ(rows[0].comm_id_hash, 0xabc);
  EXPECT_EQ(rows[0].bytes, 4096);
  EXPECT_EQ(rows[0].tid, 4712);
  const auto communicators = *rows_.communicators();
  ASSERT_EQ(communicators.size(), 1);
  EXPECT_EQ(communicators[0].nccl_comm_hash, 0xabc);
  const auto processes = *rows_.processes();
  ASSERT_EQ(processes.size(), 1);
  EXPECT_EQ(processes[0].cmdline, "train --fast");
  EXPECT_EQ(processes[0].rank, 1);
  EXPECT_FALSE(processes[0].exit_ns) << "no other rank outlived it: when it died is not known";
}

TEST_F(ImportFiles, WhatHadNotEndedIsOpen) {
  MadeProfilerFile file;
  st_box_event hung = MadeProfilerFile::collective(0, 2 * kSecond, 0);
  hung.u.coll.ops_started = 2;
  hung.u.coll.ops_ended = 1;
  file.put(1, hung, ST_BOX_ENDED);
  const auto summary = import({save(file, "a")});
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->open, 1);
  EXPECT_EQ(collectives()[0].completion, Completion::kOpen);
  EXPECT_FALSE(collectives()[0].duration_ns);
}

TEST_F(ImportFiles, TimesWithoutAHeartbeatAreWaits) {
  MadeProfilerFile file;
  file.header.heartbeat_ns = 90 * kSecond;
  file.header.pauses_filled = 2;
  file.header.pauses[0] = {.from_ns = 10 * kSecond, .to_ns = 15 * kSecond, .runnable_ns = kSecond};
  file.header.pauses[1] = {.from_ns = 20 * kSecond, .to_ns = 22 * kSecond, .runnable_ns = kSecond + 1};
  file.header.pauses[2] = {.from_ns = 30 * kSecond, .to_ns = 35 * kSecond, .runnable_ns = ~uint64_t{0}};  // unknown
  file.header.pauses[3] = {.from_ns = 45 * kSecond, .to_ns = 40 * kSecond};
  file.header.pauses[4] = {.from_ns = 40 * kSecond, .to_ns = ~uint64_t{0}};
  file.header.pauses[5] = {.from_ns = 1, .to_ns = 40 * kSecond};  // starts before the process
  ASSERT_TRUE(import({save(file, "a")}));
  std::vector<WaitSpan> spans;
  ASSERT_TRUE(rows_.wait_spans({}, [&](const WaitSpan& row) { spans.push_back(row); }));
  ASSERT_EQ(spans.size(), 2);
  EXPECT_EQ(spans[0].kind, WaitKind::kStopped);
  EXPECT_EQ(spans[0].timestamp_ns, 1'769'827'629'000'000'000);
  EXPECT_EQ(spans[0].window_ns, 5 * kSecond);
  EXPECT_EQ(spans[0].waited_ns, 4 * kSecond);
  EXPECT_EQ(spans[0].pid, 4711);
  EXPECT_FALSE(spans[0].open) << "its process is gone, not stopped";
  EXPECT_EQ(spans[1].kind, WaitKind::kRunnable) << "it wanted to run";
  EXPECT_EQ(spans[1].waited_ns, kSecond + 1);
}

TEST_F(ImportFiles, OfProcessesWithoutEventsTheHeartbeatShowsWhichDied) {
  std::vector<std::string> paths;
  for (const int32_t rank : {0, 1}) {
    MadeProfilerFile file = file_of(100 + static_cast<uint32_t>(rank), rank);
    st_box_event hung = MadeProfilerFile::collective(0, 2 * kSecond, 0);
    hung.u.coll.ops_started = 1;
    file.put(1, hung, ST_BOX_ENDED);
    file.header.heartbeat_ns =
        rank == 1 ? 2 * kSecond + 100 : 30 * kSecond;  // the other rank waited for it until it was killed
    paths.push_back(save(file, std::to_string(rank)));
  }
  ASSERT_TRUE(import(paths));
  const auto processes = *rows_.processes();
  ASSERT_EQ(processes.size(), 2);
  for (const Process& row : processes) {
    EXPECT_EQ(row.exit_ns.has_value(), row.rank == 1);
  }
}

TEST_F(ImportFiles, TheLastEntryOfAnIdCountsAndAnOpenSlotBeforeAll) {
  MadeProfilerFile file;
  file.append(MadeProfilerFile::collective(0, 2 * kSecond, 2 * kSecond + 100));
  st_box_event again = file.ring[0];
  again.end_ns += 50;
  again.commit = ST_BOX_RING_WHOLE(1);
  file.ring[1] = again;
  file.header.ring_head = 2;
  ASSERT_TRUE(import({save(file, "a")}));
  ASSERT_EQ(collectives().size(), 1);
  EXPECT_EQ(collectives()[0].duration_ns, 150);
}

TEST_F(ImportFiles, TheCallersOwnSizeComesFromTheApiCall) {
  MadeProfilerFile file;
  st_box_event api{};
  api.type = ST_BOX_COLL_API;
  api.start_ns = 2 * kSecond - 300;
  api.end_ns = 2 * kSecond + 100;
  api.u.api.count = 10;
  api.u.api.datatype = 7;
  file.append(api);
  st_box_event gather = MadeProfilerFile::collective(0, 2 * kSecond, 2 * kSecond + 900);
  gather.parent = file.ring[0].id;
  gather.u.coll.operation = ST_BOX_OP_ALL_GATHER;
  gather.u.coll.count = 40;  // NCCL's task counts bytes
  gather.u.coll.datatype = 0;
  file.append(gather);
  ASSERT_TRUE(import({save(file, "a")}));
  const auto rows = collectives();
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].count, 10);
  EXPECT_EQ(rows[0].datatype, 7);
  EXPECT_EQ(rows[0].bytes, 80);
}

/// NCCL reports the collective itself only after its launch.
TEST_F(ImportFiles, ACollectiveBeginsWithItsCallOrTheEndOfItsGroup) {
  struct Case {
    const char* what;
    bool in_group;
    uint64_t group_ended_ns;
    uint8_t api_flags;
    int64_t begins_ns;
  };
  const auto start = static_cast<int64_t>(2 * kSecond);
  for (const Case& given :
       {Case{"alone", false, 0, 0, start - 300}, Case{"in a group", true, 2 * kSecond - 100, 0, start - 100},
        Case{"in a group of its own", true, 0, 0, start - 300},
        Case{"captured before", false, 0, ST_BOX_GRAPH_CAPTURED, start}}) {
    SCOPED_TRACE(given.what);
    MadeProfilerFile file;
    st_box_event group{};
    group.type = ST_BOX_GROUP_API;
    group.start_ns = 2 * kSecond - 500;
    group.u.api.end_entered_ns = given.group_ended_ns;
    file.append(group);
    st_box_event api{};
    api.type = ST_BOX_COLL_API;
    api.parent = given.in_group ? file.ring[0].id : 0;
    api.flags = given.api_flags;
    api.start_ns = 2 * kSecond - 300;
    file.append(api);
    st_box_event event = MadeProfilerFile::collective(0, 2 * kSecond, 2 * kSecond + 9000);
    event.parent = file.ring[1].id;
    file.append(event);
    rows_ = {};
    ASSERT_TRUE(import({save(file, "a")}));
    const auto rows = collectives();
    ASSERT_EQ(rows.size(), 1);
    EXPECT_EQ(rows[0].timestamp_ns, 1'769'827'619'000'000'000 + given.begins_ns);
    EXPECT_EQ(rows[0].duration_ns, start + 9000 - given.begins_ns);
    EXPECT_EQ(rows[0].launch_ns, start + 5000 - given.begins_ns);
    EXPECT_EQ(rows[0].called_ns, 1'769'827'619'000'000'000 + start - 300);
  }
}

st_box_event operation(uint64_t parent, uint32_t steps, uint64_t network_ns) {
  st_box_event event{};
  event.parent = parent;
  event.start_ns = 2 * kSecond;
  event.end_ns = 2 * kSecond + 800;
  event.communicator = 1;
  event.tid = 4799;
  event.type = ST_BOX_PROXY_OP;
  event.channels = 3;
  event.u.proxy_op.peer = 0;
  event.u.proxy_op.steps_ended = steps;
  event.u.proxy_op.transferred_bytes = uint64_t{1000} * steps;
  event.u.proxy_op.wait_ns[ST_BOX_WAIT_NETWORK] = network_ns;
  return event;
}

TEST_F(ImportFiles, StepsAddUpAndNameTheirCollective) {
  MadeProfilerFile file;
  file.append(MadeProfilerFile::collective(0, 2 * kSecond, 2 * kSecond + 900));
  const uint64_t collective = file.ring[0].id;
  st_box_event step{};
  step.start_ns = 2 * kSecond + 100;
  step.end_ns = 2 * kSecond + 400;
  step.communicator = 1;
  step.type = ST_BOX_PROXY_STEP;
  step.flags = ST_BOX_LONG_STEP;
  step.channels = 3;
  step.u.proxy_step.step = 5;
  step.u.proxy_step.peer = 0;
  step.u.proxy_step.coll = collective;
  step.u.proxy_step.transferred_bytes = 1000;
  step.u.proxy_step.wait_ns[ST_BOX_WAIT_NETWORK] = 300;
  file.append(step);
  file.append(operation(collective, 8, 500));
  file.ring[1].parent = file.ring[2].id;
  ASSERT_TRUE(import({save(file, "a")}));
  std::vector<ProxyStep> rows;
  ASSERT_TRUE(rows_.proxy_steps({}, [&](const ProxyStep& row) { rows.push_back(row); }));
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].steps, 7);
  EXPECT_EQ(rows[0].bytes, 7000);
  EXPECT_EQ(rows[0].network_wait_ns, 200);
  EXPECT_EQ(rows[1].steps, 1);
  EXPECT_EQ(rows[1].step, 5);
  EXPECT_EQ(rows[1].network_wait_ns, 300);
  for (const ProxyStep& row : rows) {
    EXPECT_EQ(row.collective_id, collectives()[0].event_id);
    EXPECT_EQ(row.rank, 1);
    EXPECT_EQ(row.peer, 0);
    EXPECT_EQ(row.channel, 3);
    EXPECT_EQ(row.comm_id_hash, 0xabc);
  }
}

TEST_F(ImportFiles, AnOpenOperationSaysWhatItsForemostStepWaitsFor) {
  MadeProfilerFile file;
  st_box_event hung = operation(0, 4, 0);
  hung.end_ns = 0;
  file.put(1, hung, ST_BOX_OPEN);
  const uint64_t id = file.slots[1].id;
  for (uint64_t number = 0; number < 2; ++number) {
    st_box_event step{};
    step.parent = id;
    step.start_ns = 2 * kSecond;
    step.communicator = 1;
    step.type = ST_BOX_PROXY_STEP;
    step.u.proxy_step.step = static_cast<int32_t>(5 - number);
    step.u.proxy_step.state = number == 0 ? ST_BOX_WAIT_GPU : ST_BOX_WAIT_NETWORK;
    step.u.proxy_step.state_since_ns = 2 * kSecond + 50;
    file.put(2 + number, step, ST_BOX_OPEN);
  }
  ASSERT_TRUE(import({save(file, "a")}));
  std::vector<ProxyStep> rows;
  ASSERT_TRUE(rows_.proxy_steps({}, [&](const ProxyStep& row) { rows.push_back(row); }));
  ASSERT_EQ(rows.size(), 1);
  EXPECT_FALSE(rows[0].duration_ns);
  EXPECT_EQ(rows[0].waits_for, ProxyWait::kNetwork);
  EXPECT_EQ(rows[0].step, 4);
}

TEST_F(ImportFiles, AProcessThatOthersOutlivedHasEnded) {
  MadeProfilerFile dead = file_of(11, 0);
  dead.append(MadeProfilerFile::collective(0, 2 * kSecond, 3 * kSecond));
  MadeProfilerFile later = file_of(12, 1);
  later.append(MadeProfilerFile::collective(0, 2 * kSecond, 9 * kSecond));
  ASSERT_TRUE(import({save(dead, "a"), save(later, "b")}));
  const auto processes = *rows_.processes();
  for (const Process& process : processes) {
    EXPECT_EQ(process.exit_ns.has_value(), process.pid == 11) << process.pid;
  }
}

st_box_event hanging() {
  st_box_event hung = MadeProfilerFile::collective(0, 2 * kSecond, 0);
  hung.u.coll.ops_started = 1;
  return hung;
}

/// NCCL reports a death to the other ranks immediately, and they abort.
TEST_F(ImportFiles, ARankThatLeftACommunicatorOpenWhichOthersEndedAfterwardsHasDied) {
  for (const int64_t ended_after_ns : {400'000'000, -1}) {
    MadeProfilerFile dead = file_of(11, 0);
    dead.put(1, hanging(), ST_BOX_ENDED);
    dead.header.heartbeat_ns = 3 * kSecond;
    MadeProfilerFile aborted = file_of(12, 1);
    st_box_event unfinished = hanging();
    unfinished.flags |= ST_BOX_UNFINISHED;
    aborted.append(unfinished);
    aborted.header.heartbeat_ns = 3 * kSecond;
    aborted.communicators[0].destroyed_ns = 3 * kSecond + static_cast<uint64_t>(ended_after_ns);
    rows_ = {};
    ASSERT_TRUE(import({save(dead, "a"), save(aborted, "b")}));
    const auto processes = *rows_.processes();
    for (const Process& process : processes) {
      EXPECT_EQ(process.exit_ns.has_value(), process.pid == 11 && ended_after_ns > 0) << process.pid;
    }
  }
}

TEST_F(ImportFiles, AHangOfAJobThatDiedWholeEndsWithTheJob) {
  std::vector<std::string> paths;
  for (const int32_t rank : {0, 1}) {
    MadeProfilerFile file = file_of(100 + static_cast<uint32_t>(rank), rank);
    file.header.node[0] = static_cast<char>('a' + rank);  // each on its own node
    file.header.node[1] = 0;
    file.put(1, hanging(), ST_BOX_ENDED);
    file.header.heartbeat_ns = (rank == 0 ? 20 : 30) * kSecond;
    paths.push_back(save(file, std::to_string(rank)));
  }
  MadeProfilerFile other = file_of(200, 0);  // of another job, much later
  other.header.node[0] = 'c';
  other.header.node[1] = 0;
  other.communicators[0].hash = 0xdef;
  other.header.heartbeat_ns = 9000 * kSecond;
  paths.push_back(save(other, "other"));
  ASSERT_TRUE(import(paths));
  std::map<std::string, int64_t> ended;
  const auto nodes = *rows_.nodes();
  for (const Node& node : nodes) {
    ended[node.name] = (*node.ended_ns - 1'769'827'619'000'000'000) / static_cast<int64_t>(kSecond);
  }
  EXPECT_EQ(ended, (std::map<std::string, int64_t>{{"a", 30}, {"b", 30}, {"c", 9000}}))
      << "not with today, and a rank's with the last of those that waited with it";
}

TEST_F(ImportFiles, AWrongClockInOneFileMovesNoOther) {
  std::vector<std::string> paths;
  for (const int32_t rank : {0, 1, 2}) {
    MadeProfilerFile file = file_of(100 + static_cast<uint32_t>(rank), rank);
    file.append(MadeProfilerFile::collective(0, 2 * kSecond, 3 * kSecond));
    if (rank == 1) {
      file.header.anchors[0].realtime_ns -= 40ULL * 365 * 86400 * kSecond;
      file.header.anchored_ns = uint64_t{1} << 60;
    }
    paths.push_back(save(file, std::to_string(rank)));
  }
  ASSERT_TRUE(import(paths));
  for (const Collective& row : collectives()) {
    EXPECT_EQ(row.timestamp_ns == 1'769'827'621'000'000'000, row.rank != 1);
  }
  const auto nodes = *rows_.nodes();
  ASSERT_EQ(nodes.size(), 2) << "the times of its own are no part of the others' recording";
  EXPECT_EQ(std::ranges::count_if(nodes, [](const Node& node) { return node.started_ns > 1'769'000'000'000'000'000; }),
            1);
}

TEST_F(ImportFiles, FilesOfOneKernelShareOneNodeAndClock) {
  MadeProfilerFile one = file_of(11, 0);
  MadeProfilerFile two = file_of(12, 1);
  two.header.anchors[0].realtime_ns += 500;  // the wall clock was set in between
  two.header.anchored_ns += 1;
  one.append(MadeProfilerFile::collective(0, 2 * kSecond, 3 * kSecond));
  two.append(MadeProfilerFile::collective(0, 2 * kSecond, 3 * kSecond));
  const auto summary = import({save(one, "a"), save(two, "b"), save(two, "again")});
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->nodes, 1);
  EXPECT_EQ(summary->processes, 2);
  const auto rows = collectives();
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].timestamp_ns, rows[1].timestamp_ns);
}

TEST_F(ImportFiles, WhatCannotBeReadIsNamedAndLeftOut) {
  MadeProfilerFile bad;
  bad.header.version = 3;
  MadeProfilerFile good;
  ASSERT_TRUE(import({save(bad, "bad"), save(good, "good")}));
  ASSERT_EQ(notes_.size(), 1);
  golden::expect_text(notes_[0], {{folder_, "FOLDER"}});
  EXPECT_FALSE(import({save(bad, "bad")})) << "nothing is left";
}

/// Open files and events are those of one file at a time.
TEST_F(ImportFiles, ManyFilesTakeTheMemoryOfOne) {
  constexpr uint32_t kFiles = 200;
  constexpr uint64_t kCalls = 1024;
  std::vector<std::string> paths;
  for (uint32_t number = 0; number < kFiles; ++number) {
    MadeProfilerFile file = file_of(1000 + number, static_cast<int32_t>(number));
    file.resize(MadeProfilerFile::kSlots, kCalls);
    for (uint64_t call = 0; call < kCalls; ++call) {
      file.append(MadeProfilerFile::collective(call, 2 * kSecond + call * 1000, 2 * kSecond + call * 1000 + 500));
    }
    paths.push_back(save(file, std::to_string(number)));
  }
  class Counted final : public EventSink {
   public:
    void accept(Event event) override {
      calls_ += std::holds_alternative<Collective>(event) ? 1 : 0;
      most_bytes_ = std::max(most_bytes_, ::mallinfo2().uordblks);
    }
    size_t calls_ = 0;
    size_t most_bytes_ = 0;
  };
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto refused = [this](const Error& error) { notes_.push_back(error.what); };
  Counted one;
  ASSERT_TRUE(import_profiler_files(std::span(paths).first(1), one, refused));
  Counted all;
  const auto summary = import_profiler_files(paths, all, refused);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(summary);
  EXPECT_TRUE(notes_.empty()) << notes_.front();
  EXPECT_EQ(summary->processes, kFiles);
  EXPECT_EQ(all.calls_, kFiles * kCalls);
  EXPECT_LT(all.most_bytes_, one.most_bytes_ + kFiles * 4096) << "events of earlier files are kept";
}

TEST_F(ImportFiles, AFileThatIsTooLargeIsLeftOutWithWhatToDo) {
  MadeProfilerFile large;
  large.header.ring_capacity = 8U << 20;  // 1 GiB of records, of which none is on the disk
  large.header.file_bytes = large.header.ring_offset + large.header.ring_capacity * sizeof(st_box_event);
  const std::string path = save(large, "large");
  std::filesystem::resize_file(path, large.header.file_bytes);
  const auto refused = import_profiler_files(std::span(&path, 1), rows_, [](const Error&) {});
  ASSERT_FALSE(refused);
  golden::expect_text(refused.error().what + "; " + refused.error().remedy, {{folder_, "FOLDER"}});
}

/// The process's signs of life move with its clock.
TEST_F(ImportFiles, ADeathIsByTheClockThatWasChosen) {
  MadeProfilerFile dead = file_of(11, 0);
  MadeProfilerFile later = file_of(12, 1);
  later.header.anchors[0].realtime_ns += 500;
  later.header.anchored_ns += 1;
  dead.append(MadeProfilerFile::collective(0, 2 * kSecond, 3 * kSecond));
  later.append(MadeProfilerFile::collective(0, 2 * kSecond, 9 * kSecond));
  ASSERT_TRUE(import({save(dead, "a"), save(later, "b")}));
  const auto processes = *rows_.processes();
  ASSERT_EQ(processes.size(), 2);
  EXPECT_EQ(processes[0].exit_ns, 1'769'827'622'000'000'500);
}

TEST_F(ImportFiles, ImpossibleNumbersAreUnknown) {
  MadeProfilerFile file;
  file.communicators[0].rank = -7;
  file.communicators[0].ranks = -1;
  st_box_event odd =
      MadeProfilerFile::collective(ST_BOX_NUMBER_UNKNOWN, 2 * kSecond, kSecond);  // ended before it began
  odd.u.coll.count = ~0ULL;
  odd.u.coll.datatype = 200;
  odd.u.coll.enqueued_ns = 7;
  file.append(odd);
  odd.u.coll.operation = 250;
  file.append(odd);
  odd = MadeProfilerFile::collective(1, ~0ULL, ~0ULL);
  file.append(odd);
  ASSERT_TRUE(import({save(file, "a")}));
  const auto rows = collectives();
  ASSERT_EQ(rows.size(), 1);
  EXPECT_FALSE(rows[0].seq || rows[0].rank || rows[0].nranks || rows[0].count || rows[0].datatype ||
               rows[0].launch_ns || rows[0].duration_ns);
}

}  // namespace
}  // namespace stalltrace::blackbox
