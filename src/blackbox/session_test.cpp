// SPDX-License-Identifier: Apache-2.0
// A session's view of a growing file, and its loss counts where a limit is exceeded.
#include "blackbox/session.h"

#include <gtest/gtest.h>

#include "blackbox/testing/made_profiler_file.h"

namespace stalltrace::blackbox {
namespace {

constexpr uint64_t kSessionSecond = 1'000'000'000;
constexpr uint64_t kNow = 100 * kSessionSecond;
constexpr Owner kOwner{.node_id = 5, .pid = 4711};

class Session : public ::testing::Test {
 protected:
  Session() {
    char name[] = "/dev/shm/stalltrace-session-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~Session() override { std::filesystem::remove_all(folder_); }

  ProfilerSession open(Keep keep) {
    write();
    auto session = ProfilerSession::open(path(), keep);
    EXPECT_TRUE(session);
    return std::move(*session);
  }
  void write() const { file_.write(path()); }
  [[nodiscard]] std::string path() const { return folder_ + "/a.profiler"; }
  /// Appends `count` events, reading whenever the ring is full.
  template <typename Make>
  void stream(ProfilerSession& session, uint64_t count, const Make& make) {
    for (uint64_t n = 0; n < count; ++n) {
      file_.append(make(n));
      if ((n + 1) % MadeProfilerFile::kRing == 0 || n + 1 == count) {
        write();
        ASSERT_TRUE(session.read(kNow, {.open_parts = false}));
      }
    }
  }

  std::string folder_;
  MadeProfilerFile file_;
};

TEST_F(Session, TakesEachEndedCallOnceAndOpenOnesAtEveryRead) {
  file_.append(MadeProfilerFile::collective(0, 2 * kSessionSecond, 3 * kSessionSecond));
  st_box_event hung = MadeProfilerFile::collective(1, 4 * kSessionSecond, 0);
  hung.u.coll.ops_started = 1;
  file_.put(0, hung, ST_BOX_ENDED);
  ProfilerSession session = open(Keep::kNewCalls);
  ASSERT_TRUE(session.read(kNow));
  auto calls = session.take_calls(kOwner);
  ASSERT_EQ(calls.size(), 2);
  EXPECT_EQ(calls[0].row.seq, 0);
  EXPECT_EQ(calls[1].row.completion, Completion::kOpen);
  ASSERT_TRUE(session.read(kNow));
  calls = session.take_calls(kOwner);
  ASSERT_EQ(calls.size(), 1);
  EXPECT_EQ(calls[0].row.seq, 1);
  ASSERT_TRUE(session.read(kNow, {.open_parts = false}));
  EXPECT_TRUE(session.take_calls(kOwner).empty());
}

TEST_F(Session, KeepsCallsBackThatBeganLater) {
  file_.append(MadeProfilerFile::collective(0, 2 * kSessionSecond, 3 * kSessionSecond));
  ProfilerSession session = open(Keep::kNewCalls);
  ASSERT_TRUE(session.read(kNow));
  EXPECT_TRUE(session.take_calls(kOwner, 2 * kSessionSecond).empty());
  EXPECT_TRUE(session.holds_calls());
  EXPECT_EQ(session.take_calls(kOwner, 2 * kSessionSecond + 1).size(), 1);
  EXPECT_FALSE(session.holds_calls());
}

TEST_F(Session, CallsKeptBackBeyondTheBoundAreALoss) {
  ProfilerSession session = open(Keep::kNewCalls);
  stream(session, 65536 + 5,
         [](uint64_t n) { return MadeProfilerFile::collective(n, 2 * kSessionSecond + n, 3 * kSessionSecond); });
  EXPECT_EQ(session.losses().of(kLostHeldCalls), 5);
  EXPECT_EQ(session.take_calls(kOwner).size(), 65536);
}

TEST_F(Session, ACallWhoseApiCallIsForgottenIsALoss) {
  ProfilerSession session = open(Keep::kNewCalls);
  st_box_event api{};
  api.type = ST_BOX_COLL_API;
  api.start_ns = 2 * kSessionSecond;
  file_.append(api);
  st_box_event collective = MadeProfilerFile::collective(0, 2 * kSessionSecond + 5, 3 * kSessionSecond);
  collective.parent = file_.ring[0].id;
  file_.append(collective);
  stream(session, 0, [&](uint64_t) { return api; });
  write();
  ASSERT_TRUE(session.read(kNow));
  EXPECT_EQ(session.take_calls(kOwner).size(), 1);
  EXPECT_EQ(session.losses().of(kLostApiCalls), 0);
  stream(session, 2048, [&](uint64_t) { return api; });
  file_.append(collective);
  write();
  ASSERT_TRUE(session.read(kNow));
  EXPECT_EQ(session.take_calls(kOwner).size(), 1);
  EXPECT_EQ(session.losses().of(kLostApiCalls), 1);
}

/// The writer reuses the entries of ended communicators, and the session keeps no more of them than the table holds.
TEST_F(Session, WhatNamesAForgottenCommunicatorIsALoss) {
  ProfilerSession session = open(Keep::kNewCalls);
  ASSERT_TRUE(session.read(kNow));
  ASSERT_NE(session.communicator(1), nullptr);
  for (uint64_t entry = 0; entry < MadeProfilerFile::kCommunicators; ++entry) {
    file_.communicators[entry] = {.serial = 2 + entry, .hash = 0xabd + entry, .created_ns = 2 * kSessionSecond};
  }
  const auto of_communicator = [](uint32_t serial, uint64_t end_ns) {
    st_box_event event = MadeProfilerFile::collective(serial, 2 * kSessionSecond, end_ns);
    event.communicator = serial;
    return event;
  };
  for (const uint32_t serial : {0, 1, 2}) {
    file_.append(of_communicator(serial, 3 * kSessionSecond));
  }
  st_box_event step{};
  step.type = ST_BOX_PROXY_STEP;
  step.communicator = 1;
  step.start_ns = 2 * kSessionSecond;
  step.end_ns = 3 * kSessionSecond;
  file_.append(step);
  st_box_event hung = of_communicator(1, 0);
  hung.u.coll.ops_started = 1;
  file_.put(0, hung, ST_BOX_ENDED);
  write();
  ASSERT_TRUE(session.read(kNow));
  ASSERT_EQ(session.communicator(1), nullptr);
  EXPECT_EQ(session.take_calls(kOwner).size(), 4);
  EXPECT_EQ(session.losses().of(kLostForgottenCommunicators), 1) << "an open call comes again";
  EXPECT_EQ(session.take_steps(kOwner).size(), 1);
  EXPECT_EQ(session.losses().of(kLostForgottenCommunicators), 2);
}

TEST_F(Session, StepsOfMoreOperationsThanAreRememberedAreCounted) {
  ProfilerSession session = open(Keep::kNewCalls);
  stream(session, 4096 + 2, [](uint64_t n) {
    st_box_event step{};
    step.type = ST_BOX_PROXY_STEP;
    step.start_ns = 2 * kSessionSecond;
    step.parent = 1000 + n;
    return step;
  });
  EXPECT_EQ(session.take_steps(kOwner).size(), 4096 + 2);
  EXPECT_EQ(session.losses().of(kLostDoubledSteps), 2);
}

TEST_F(Session, CommunicatorsOfARoundWithoutOpenPartsAreReadWhenThereAreNewOnes) {
  ProfilerSession session = open(Keep::kNewCalls);
  ASSERT_TRUE(session.read(kNow));
  EXPECT_EQ(session.take_communicators(kOwner).size(), 1);
  file_.communicators[1] = {.serial = 2, .hash = 0xdef, .ranks = 2, .nodes = 3, .created_ns = 2 * kSessionSecond};
  file_.header.communicators_made = 2;
  write();
  ASSERT_TRUE(session.read(kNow, {.open_parts = false}));
  const auto rows = session.take_communicators(kOwner);
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].nccl_comm_hash, 0xdef);
  EXPECT_EQ(session.nodes_of(0xdef), 3);
  file_.communicators[1].destroyed_ns = 3 * kSessionSecond;
  write();
  ASSERT_TRUE(session.read(kNow));
  ASSERT_EQ(session.take_communicators(kOwner).size(), 1);
  EXPECT_TRUE(session.take_communicators(kOwner).empty());
}

TEST_F(Session, TheLastSignOfLifeIsTheNewestValidTimeOfAnyEvent) {
  struct Case {
    const char* what;
    void (*add)(MadeProfilerFile& file);
    uint64_t last_ns;
  };
  const Case cases[]{
      {"nothing but the process", [](MadeProfilerFile&) {}, kSessionSecond},
      {"heartbeat", [](MadeProfilerFile& file) { file.header.heartbeat_ns = 9 * kSessionSecond; }, 9 * kSessionSecond},
      {"heartbeat after now", [](MadeProfilerFile& file) { file.header.heartbeat_ns = 2 * kNow; }, kSessionSecond},
      {"end",
       [](MadeProfilerFile& file) {
         file.append(MadeProfilerFile::collective(0, 2 * kSessionSecond, 8 * kSessionSecond));
       },
       8 * kSessionSecond},
      {"open step",
       [](MadeProfilerFile& file) {
         st_box_event step{};
         step.type = ST_BOX_PROXY_STEP;
         step.start_ns = 2 * kSessionSecond;
         step.u.proxy_step.state_since_ns = 7 * kSessionSecond;
         file.put(0, step, ST_BOX_OPEN);
       },
       7 * kSessionSecond},
  };
  for (const Case& given : cases) {
    for (const Keep keep : {Keep::kNothing, Keep::kNewCalls, Keep::kAll}) {
      file_ = {};
      given.add(file_);
      ProfilerSession session = open(keep);
      ASSERT_TRUE(session.read(kNow));
      EXPECT_EQ(session.activity(false, 0).last_active_ns, given.last_ns) << given.what;
    }
  }
}

TEST_F(Session, ALossThatAWriterTakesBackStays) {
  file_.header.lost[0] = 7;
  ProfilerSession session = open(Keep::kNothing);
  ASSERT_TRUE(session.read(kNow));
  file_.header.lost[0] = 3;
  write();
  ASSERT_TRUE(session.read(kNow));
  EXPECT_EQ(session.losses().of("profiler:no_slot"), 7);
}

TEST_F(Session, ProgressCountsEndedCallsOverAllReads) {
  file_.append(MadeProfilerFile::collective(0, 2 * kSessionSecond, 3 * kSessionSecond));
  ProfilerSession session = open(Keep::kNothing);
  ASSERT_TRUE(session.read(kNow));
  file_.append(MadeProfilerFile::collective(1, 2 * kSessionSecond, 3 * kSessionSecond));
  st_box_event hung = MadeProfilerFile::collective(2, 4 * kSessionSecond, 0);
  hung.u.coll.ops_started = 1;
  file_.put(0, hung, ST_BOX_ENDED);
  write();
  ASSERT_TRUE(session.read(kNow));
  EXPECT_EQ(session.progress().completed, 2);
  EXPECT_EQ(session.progress().open, 1);
  EXPECT_EQ(session.progress().oldest_open_ns, 4 * kSessionSecond);
}

TEST(LossCounts, AddUpAndNeverOverflow) {
  LossCounts counts;
  counts.add(kLostTorn, ~uint64_t{0});
  counts.add(kLostTorn, ~uint64_t{0});
  counts.add(kLostFiles, 0);
  LossCounts sum;
  sum.add(counts);
  sum.add(counts);
  const auto rows = sum.rows(5);
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].source, kLostTorn);
  EXPECT_EQ(rows[0].count, std::numeric_limits<int64_t>::max());
}

TEST_F(Session, ACallThatIsInTheRingAndStillInItsSlotIsTakenOnce) {
  file_.put(0, MadeProfilerFile::collective(0, 2 * kSessionSecond, 3 * kSessionSecond), ST_BOX_QUIET);
  file_.append_slot(0);
  ProfilerSession session = open(Keep::kNewCalls);
  ASSERT_TRUE(session.read(kNow));
  EXPECT_EQ(session.take_calls(kOwner).size(), 1);
  ASSERT_TRUE(session.read(kNow));
  EXPECT_EQ(session.take_calls(kOwner).size(), 0);
  file_.slots[0].end_ns = 4 * kSessionSecond;  // a late part; its writer was killed before the ring had it
  write();
  ASSERT_TRUE(session.read(kNow));
  const auto calls = session.take_calls(kOwner);
  ASSERT_EQ(calls.size(), 1);
  EXPECT_EQ(calls[0].row.end_ns(), 4 * kSessionSecond);
  ASSERT_TRUE(session.read(kNow));
  EXPECT_EQ(session.take_calls(kOwner).size(), 0);
}

TEST_F(Session, ACallWhoseEndNothingWillShowIsTakenOnce) {
  file_.put(0, MadeProfilerFile::collective(0, 2 * kSessionSecond, 0), ST_BOX_ENDED);
  ProfilerSession session = open(Keep::kNewCalls);
  ASSERT_TRUE(session.read(kNow));
  EXPECT_TRUE(session.take_calls(kOwner, 2 * kSessionSecond).empty()) << "kept back";
  ASSERT_TRUE(session.read(kNow));
  const auto calls = session.take_calls(kOwner);
  ASSERT_EQ(calls.size(), 1);
  EXPECT_EQ(calls[0].row.completion, Completion::kUnobserved);
  file_.slots[0].flags |= ST_BOX_UNFINISHED;
  file_.append_slot(0);  // the slot was needed
  write();
  ASSERT_TRUE(session.read(kNow));
  EXPECT_TRUE(session.take_calls(kOwner).empty());
}

TEST_F(Session, AStepThatEndsInItsSlotIsTakenOnce) {
  st_box_event step{};
  step.type = ST_BOX_PROXY_STEP;
  step.start_ns = 2 * kSessionSecond;
  step.end_ns = 3 * kSessionSecond;
  step.parent = 1000;
  file_.put(0, step, ST_BOX_CLOSING);
  ProfilerSession session = open(Keep::kNewCalls);
  for (const size_t rows : {1, 0}) {
    ASSERT_TRUE(session.read(kNow));
    EXPECT_EQ(session.take_steps(kOwner).size(), rows);
  }
  file_.append_slot(0);
  write();
  ASSERT_TRUE(session.read(kNow));
  EXPECT_EQ(session.take_steps(kOwner).size(), 0);
}

TEST_F(Session, ACallWithoutItsApiCallIsALossOnce) {
  ProfilerSession session = open(Keep::kNewCalls);
  st_box_event api{};
  api.type = ST_BOX_COLL_API;
  stream(session, 2049, [&](uint64_t) { return api; });
  st_box_event collective = MadeProfilerFile::collective(0, 2 * kSessionSecond, 3 * kSessionSecond);
  collective.parent = 1;
  file_.put(0, collective, ST_BOX_QUIET);
  file_.append_slot(0);
  write();
  for (int n = 0; n < 3; ++n) {
    ASSERT_TRUE(session.read(kNow));
    session.take_calls(kOwner);
  }
  EXPECT_EQ(session.losses().of(kLostApiCalls), 1);
}

}  // namespace
}  // namespace stalltrace::blackbox
