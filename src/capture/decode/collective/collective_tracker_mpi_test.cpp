// SPDX-License-Identifier: Apache-2.0
// The tracker on MPI's specifics: requests, and the end of MPI_COMM_WORLD.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "capture/testing/tracked_calls.h"

namespace stalltrace::capture {
namespace {

using testing::Optional;
using testing::SizeIs;

constexpr uint64_t kWorld = 0x44000000;

class MpiCalls : public TrackedCalls {
 protected:
  void SetUp() override {
    processes_.add(Process{.node_id = kNode,
                           .pid = kPid,
                           .start_ns = 1,
                           .rank = 2,
                           .rank_source = RankSource::kEnvironment,
                           .world_size = 3});
    tracker_.set_job(kPid, {.key = 99, .mpi_world = kWorld});
    tracker_.on_comm_init(init_of("MPI_Init", 100));
    return_from("MPI_Init", 100, 200);
  }
  void enter(std::string_view symbol, uint64_t time_ns, uint64_t sequence = 0) {
    st_call_entry record = entry_of(symbol, time_ns, sequence);
    record.comm = call_table()[record.row].spec.comm ? kWorld : 0;
    tracker_.on_entry(record);
  }
  void return_from(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns, uint64_t value = 0) {
    st_call_return record = return_of(symbol, entry_ns, time_ns);
    record.value = value;
    tracker_.on_return(record);
  }
  void begin(uint64_t time_ns, uint64_t sequence, uint64_t request) {
    enter("MPI_Iallreduce", time_ns, sequence);
    return_from("MPI_Iallreduce", time_ns, time_ns + 10, request);
  }
  void finds(std::string_view symbol, uint64_t entry_ns, uint64_t time_ns, uint64_t request) {
    st_sync record = sync_of(symbol, entry_ns, time_ns);
    record.event = request;
    tracker_.on_sync(record);
  }
  /// Sorted by start; they were delivered in order of their ends.
  std::vector<Collective> rows(Operation op) {
    tracker_.deliver_open();
    std::vector<Collective> result = TrackedCalls::rows();
    std::erase_if(result, [&](const Collective& row) { return row.op != op; });
    std::ranges::sort(result, {}, &Collective::timestamp_ns);
    return result;
  }
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
