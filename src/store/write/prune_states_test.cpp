// SPDX-License-Identifier: Apache-2.0
// What ended goes in the order of its ends, in batches of any size; what lives, and what a hang needs, stays.
#include "store/write/prune_states.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "store/schema/schema.h"
#include "store/testing/test_support.h"
#include "store/write/prune.h"

namespace stalltrace::store {
namespace {

constexpr NodeId kPrunedNode = 1;

class EndedStatesTest : public ::testing::Test {
 protected:
  EndedStatesTest() : db_(must(Database::open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE))) {
    must(migrate(db_));
  }

  void process(int32_t pid, int64_t start_ns, const std::string& exit_ns = "NULL") {
    must(db_.execute(fmt::format("INSERT INTO process(node_id, pid, start_ns, exit_ns) VALUES({}, {}, {}, {})",
                                 kPrunedNode, pid, start_ns, exit_ns)));
  }
  void communicator(int32_t pid, int64_t created_ns, const std::string& destroyed_ns = "NULL") {
    must(
        db_.execute(fmt::format("INSERT INTO communicator(node_id, pid, comm_ptr, created_ns, destroyed_ns) "
                                "VALUES({}, {}, 1, {}, {})",
                                kPrunedNode, pid, created_ns, destroyed_ns)));
  }
  int64_t count(const std::string& rows) { return must(db_.integer("SELECT count(*) FROM " + rows)); }
  EndedStates read(const Keep& keep = {}, EndedStates::Depth depth = EndedStates::Depth::kNormal) {
    return must(EndedStates::read(db_, kPrunedNode, kForever, keep, depth));
  }
  void remove_all(EndedStates states) {
    while (!must(states.remove_some(db_, 100)).empty()) {
    }
  }

  Database db_;
};

TEST_F(EndedStatesTest, ACommunicatorOfAReusedPidLivesWithTheNewestProcess) {
  process(7, 10, "20");
  process(7, 30);
  communicator(7, 35);
  remove_all(read());
  EXPECT_EQ(count("communicator"), 1);
  EXPECT_EQ(count("process WHERE exit_ns IS NULL"), 1);
  EXPECT_EQ(count("process"), 1);
}

TEST_F(EndedStatesTest, ACommunicatorWhoseProcessHasNoRowIsNotThatOfTheOneBefore) {
  process(7, 10, "20");
  communicator(7, 35);
  remove_all(read());
  EXPECT_EQ(count("communicator"), 1);
  process(7, 30, "40");
  remove_all(read());
  EXPECT_EQ(count("communicator"), 0);
  EXPECT_EQ(count("process"), 0);
}

TEST_F(EndedStatesTest, NoBatchLeavesACommunicatorWithoutItsProcess) {
  constexpr int kCommunicators = 3;
  for (const int32_t pid : {3, 1, 2}) {
    process(pid, pid * 10, std::to_string(pid * 10 + 9));
    for (int i = 0; i < kCommunicators; ++i) {
      communicator(pid, pid * 10 + i);
    }
  }
  EndedStates states = read();
  uint64_t removed = 0;
  while (true) {
    const EndedStates::Removed some = must(states.remove_some(db_, 2));
    if (some.empty()) {
      break;
    }
    for (const auto& [table, rows] : some) {
      removed += rows;
    }
    EXPECT_EQ(count("communicator c WHERE NOT EXISTS (SELECT 1 FROM process p WHERE p.pid = c.pid)"), 0);
  }
  EXPECT_EQ(removed, 12U);
  EXPECT_EQ(count("communicator"), 0);
  EXPECT_EQ(count("process"), 0);
  EXPECT_EQ(must(db_.integer("SELECT sum(count) FROM loss")), 12);
}

TEST_F(EndedStatesTest, ACompetitorGoesOnceItHasEnded) {
  must(
      db_.execute(fmt::format("INSERT INTO competitor(node_id, pid, start_ns, exit_ns) VALUES({0}, 7, 10, 20), "
                              "({0}, 7, 30, NULL)",
                              kPrunedNode)));
  EndedStates states = read();
  EXPECT_EQ(must(states.remove_some(db_, 100)), (EndedStates::Removed{{"competitor", 1}}));
  EXPECT_EQ(must(db_.integer("SELECT start_ns FROM competitor")), 30);
}

TEST_F(EndedStatesTest, WhatAProcessDidWithGraphsGoesBeforeIt) {
  process(7, 10, "20");
  process(8, 10, "NULL");
  must(
      db_.execute(fmt::format("INSERT INTO graph_use(node_id, pid, start_ns, captured, launches) "
                              "VALUES({0}, 7, 10, 1, 2), ({0}, 8, 10, 1, 2)",
                              kPrunedNode)));
  EndedStates states = read();
  EXPECT_EQ(must(states.remove_some(db_, 1)), (EndedStates::Removed{{"graph_use", 1}}));
  EXPECT_EQ(must(states.remove_some(db_, 1)), (EndedStates::Removed{{"process", 1}}));
  EXPECT_EQ(must(db_.integer("SELECT pid FROM graph_use")), 8);
}

TEST_F(EndedStatesTest, TheEarliestEndedGoFirst) {
  process(1, 10, "90");
  process(2, 20, "30");
  EndedStates states = read();
  EXPECT_EQ(must(states.remove_some(db_, 1)), (EndedStates::Removed{{"process", 1}}));
  EXPECT_EQ(must(db_.integer("SELECT pid FROM process")), 1);
}

TEST_F(EndedStatesTest, AProcessThatEndedInsideACallStaysAndGoesLast) {
  process(7, 10, "50");
  communicator(7, 15);
  process(7, 60, "70");  // the pid's next
  process(8, 10, "100");
  const Keep keep{.windows = {}, .open_calls = {{.pid = 7, .timestamp_ns = 40}}};
  remove_all(read(keep));
  EXPECT_EQ(count("process"), 1);
  EXPECT_EQ(count("process WHERE pid = 7 AND start_ns = 10"), 1);
  EXPECT_EQ(count("communicator"), 1);

  process(9, 200, "300");
  EndedStates everything = read(keep, EndedStates::Depth::kEverything);
  must(everything.remove_some(db_, 1));
  EXPECT_EQ(count("process WHERE pid = 7"), 1);
  remove_all(std::move(everything));
  EXPECT_EQ(count("process"), 0);
  EXPECT_EQ(count("communicator"), 0);
}

/// Reading all rows again for each of many batches takes minutes of a large recording.
TEST_F(EndedStatesTest, RowsAreReadAFewTimesHoweverManyBatchesTheyTake) {
  constexpr int32_t kProcesses = 5'000;
  must(db_.execute("BEGIN"));
  for (int32_t pid = 1; pid <= kProcesses; ++pid) {
    process(pid, pid, std::to_string(pid + 1));
  }
  must(db_.execute("COMMIT"));
  int reads = 0;
  sqlite3_trace_v2(
      db_.get(), SQLITE_TRACE_STMT,
      [](unsigned, void* count, void*, void* text) {
        const std::string_view sql(static_cast<const char*>(text));
        *static_cast<int*>(count) += sql.starts_with("SELECT start_ns") && sql.find(" FROM process ") != sql.npos;
        return 0;
      },
      &reads);
  Pruner pruner;
  must(pruner.prune(db_, kPrunedNode, {}, {}, {.target_bytes = 0, .transaction_bytes = 1280}));
  EXPECT_EQ(count("process"), 0);
  EXPECT_GE(reads, 1);
  EXPECT_LE(reads, 3);
}

TEST(OpenCalls, AreThoseThatHaveNotEnded) {
  OpenCalls calls;
  calls.note(collective_row(kPrunedNode, 2, 20, std::nullopt));
  calls.note(collective_row(kPrunedNode, 1, 10, std::nullopt));
  calls.note(collective_row(kPrunedNode, 3, 30, 5));
  calls.note(collective_row(kPrunedNode, 2, 20, 7));
  Collective unobserved = collective_row(kPrunedNode, 4, 40, std::nullopt);
  unobserved.completion = Completion::kUnobserved;
  calls.note(unobserved);
  EXPECT_EQ(calls.sorted(), (std::vector<OpenCall>{{.pid = 42, .timestamp_ns = 10}}));
}

TEST(OpenCalls, OfManyProcessesTheOthersCallsStay) {
  OpenCalls calls;
  uint64_t number = 0;
  const auto open = [&](int32_t pid) {
    ++number;
    Collective row = collective_row(kPrunedNode, number, static_cast<int64_t>(number), std::nullopt);
    row.pid = pid;
    calls.note(row);
  };
  open(1);
  for (int i = 0; i < 100'000; ++i) {
    open(2);
  }
  EXPECT_EQ(calls.sorted().front(), (OpenCall{.pid = 1, .timestamp_ns = 1}));
  EXPECT_EQ(calls.sorted().size(), 1 + 64);
  EXPECT_EQ(calls.sorted().back().timestamp_ns, 100'001) << "the newest";
  for (int32_t pid = 3; pid < 4098; ++pid) {
    open(pid);
  }
  EXPECT_EQ(calls.sorted().front().pid, 2) << "the first process called longest ago";
}

}  // namespace
}  // namespace stalltrace::store
