// SPDX-License-Identifier: Apache-2.0
// What the tracker makes of MPI's own ways: requests, and the end of MPI_COMM_WORLD.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "capture/call_table.h"
#include "capture/collective_tracker.h"
#include "model/source.h"

namespace stalltrace::capture {
namespace {

using testing::Optional;
using testing::SizeIs;

constexpr int64_t kOffset = 1'000'000'000'000;
constexpr int32_t kPid = 4711;
constexpr uint32_t kTid = 4712;
constexpr uint64_t kWorld = 0x44000000;

uint16_t row_of(std::string_view symbol) {
  const auto table = call_table();
  for (size_t row = 0; row < table.size(); ++row) {
    if (table[row].symbol == symbol) {
      return static_cast<uint16_t>(row);
    }
  }
  ADD_FAILURE() << symbol;
  return 0;
}

class MpiCalls : public testing::Test {
 protected:
  void SetUp() override {
    processes_.add(Process{
        .node_id = 7, .pid = kPid, .start_ns = 1, .rank = 2, .rank_source = RankSource::kEnvironment, .world_size = 3});
    tracker_.set_job(kPid, {.key = 99, .mpi_world = kWorld});
    st_comm_init record{};
    record.header = header_of(100);
    record.row = row_of("MPI_Init");
    record.nranks = record.rank = record.color = -1;
    tracker_.on_comm_init(record);
    return_from("MPI_Init", 100, 200);
  }
  static st_header header_of(uint64_t time_ns) {
    return {.version = ST_WIRE_VERSION, .time_ns = time_ns, .tgid = static_cast<uint32_t>(kPid), .tid = kTid};
  }
  void enter(std::string_view symbol, uint64_t time_ns, uint64_t sequence = 0) {
    st_call_entry record{};
    record.header = header_of(time_ns);
    record.row = row_of(symbol);
    record.comm = call_table()[record.row].spec.comm ? kWorld : 0;
    record.sequence = sequence;
    record.datatype = record.reduce_op = record.root = record.peer = record.comm_rank = record.comm_size = -1;
    record.last_net_ns = time_ns;
    tracker_.on_entry(record);
  }
  void return_from(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns, uint64_t value = 0) {
    st_call_return record{};
    record.header = header_of(time_ns);
    record.row = row_of(symbol);
    record.entry_ns = entry_ns;
    record.value = value;
    tracker_.on_return(record);
  }
  void begin(uint64_t time_ns, uint64_t sequence, uint64_t request) {
    enter("MPI_Iallreduce", time_ns, sequence);
    return_from("MPI_Iallreduce", time_ns, time_ns + 10, request);
  }
  void finds(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns, uint64_t request) {
    st_sync record{};
    record.header = header_of(time_ns);
    record.entry_ns = entry_ns;
    record.event = request;
    record.row = row_of(symbol);
    record.kind = call_table()[record.row].spec.kind;
    tracker_.on_sync(record);
  }
  std::vector<Collective> rows(Operation op) {
    tracker_.deliver_open();
    std::vector<Collective> result;
    EXPECT_TRUE(sink_.collectives({}, [&](const Collective& row) {
      if (row.op == op) {
        result.push_back(row);
      }
    }));
    std::ranges::sort(result, {}, &Collective::timestamp_ns);  // they came in the order of their ends
    return result;
  }

  MemorySource sink_;
  EventIds ids_{7};
  ProcessRegistry processes_{sink_};
  CollectiveTracker tracker_{ids_, processes_, sink_, kOffset};
};

TEST_F(MpiCalls, EachWayToAskEndsTheCallOfItsRequestOnly) {
  const std::vector<std::string_view> ways{"MPI_Wait", "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome",
                                           "MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome"};
  uint64_t now = 1000;
  for (size_t i = 0; i < ways.size(); ++i) {
    SCOPED_TRACE(ways[i]);
    begin(now, 2 * i, 0x98000000);
    begin(now + 100, 2 * i + 1, 0x98000001);
    finds(ways[i], now + 300, now + 400, 0x98000001);
    const auto seen = rows(Operation::kAllReduce);
    ASSERT_THAT(seen, SizeIs(2 * i + 2));
    EXPECT_EQ(seen[2 * i].completion, Completion::kOpen);
    EXPECT_EQ(seen[2 * i + 1].completion, Completion::kSync);
    EXPECT_THAT(seen[2 * i + 1].duration_ns, Optional(300));
    finds(ways[i], now + 500, now + 600, 0x98000000);
    EXPECT_THAT(rows(Operation::kAllReduce)[2 * i].duration_ns, Optional(600));
    now += 1000;
  }
}

TEST_F(MpiCalls, TheEndOfMpiIsTheEndOfItsWorld) {
  enter("MPI_Finalize", 5000);
  auto calls = rows(Operation::kCommDestroy);
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].completion, Completion::kOpen);  // seen while it hangs
  EXPECT_EQ(calls[0].comm_ptr, kWorld);
  EXPECT_THAT(calls[0].rank, Optional(2));
  EXPECT_THAT(calls[0].nranks, Optional(3));
  EXPECT_NE(calls[0].comm_id_hash, 0U);
  EXPECT_EQ(sink_.communicators()->back().destroyed_ns, std::nullopt);

  return_from("MPI_Finalize", 5000, 5700);
  calls = rows(Operation::kCommDestroy);
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].completion, Completion::kCall);
  EXPECT_THAT(calls[0].duration_ns, Optional(700));
  EXPECT_THAT(sink_.communicators()->back().destroyed_ns, Optional(5700 + kOffset));
}

TEST_F(MpiCalls, TheEndOfAWorldThatIsNotKnownMakesNone) {
  tracker_.set_job(kPid, {});
  const size_t before = sink_.communicators()->size();
  enter("MPI_Finalize", 5000);
  return_from("MPI_Finalize", 5000, 5700);
  EXPECT_EQ(rows(Operation::kCommDestroy)[0].completion, Completion::kCall);
  EXPECT_THAT(*sink_.communicators(), SizeIs(before));
}

}  // namespace
}  // namespace stalltrace::capture
