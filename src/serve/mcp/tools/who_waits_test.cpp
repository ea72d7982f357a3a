// SPDX-License-Identifier: Apache-2.0
// Tool `who_waits` on small jobs whose truth is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "serve/mcp/tools/testing/tool_jobs.h"
#include "tests/support/golden_text.h"

namespace stalltrace::serve::mcp {
namespace {

TEST(WhoWaits, ShowsAHang) {
  ServedJob job = served(hang({2}));
  const Json waits = job.ask("who_waits");
  EXPECT_EQ(at(waits, "total"), Json(1));
  EXPECT_EQ(at(waits, "instances.0.instance.hangs"), Json(true));
  EXPECT_EQ(at(waits, "instances.0.inside_total"), Json(3));
  EXPECT_EQ(at(waits, "instances.0.awaited.0.who.rank"), Json(2));
  EXPECT_EQ(at(waits, "instances.0.awaited").dump().find("arrives"), std::string::npos);
  EXPECT_EQ(at(waits, "held_up_by.0.rank"), Json(2));
  EXPECT_EQ(at(waits, "held_up_by_total"), Json(1));
  EXPECT_EQ(at(waits, "next.0.arguments").dump(), R"({"rank":2})");
}

TEST(WhoWaits, AJobThatWasEndedInAHangWaitsUntilThen) {
  Ending ending = hang({2});
  ending.process = [](int rank, Process& process) { exit_at(process, kLastArrivalNs + (100 + rank) * kNsPerSecond); };
  ServedJob job = served(ending);
  const Json waits = job.ask("who_waits");
  EXPECT_EQ(at(waits, "time.at_s"), Json(104.95));  // rank 0 ends first
  EXPECT_EQ(at(waits, "instances.0.inside_total"), Json(3));
  EXPECT_EQ(at(waits, "held_up_by.0.rank"), Json(2));
  EXPECT_EQ(at(job.ask("who_waits", R"({"time":"+110s"})"), "total"), Json(0));
}

TEST(WhoWaits, ShowsALateRankAtItsTime) {
  ServedJob job = served(late_job());
  const Json waits = job.ask("who_waits", R"({"time":"+2510ms"})");  // step 50 began 10 ms before
  EXPECT_EQ(at(waits, "instances.0.inside_total"), Json(3));
  EXPECT_EQ(at(waits, "instances.0.awaited.0.who.rank"), Json(1));
  EXPECT_EQ(at(waits, "instances.0.awaited.0.arrives.at_s"), Json(2.5301));
  EXPECT_EQ(at(job.ask("who_waits", R"({"time":"+2545ms"})"), "total"), Json(0));
  golden::expect_text(job.failure_of("who_waits", R"({"time":"+99999s"})"));
}

/// Rank 2 is inside a call of its own with rank 3 that rank 3 does not enter: who waits for rank 2 waits for rank 3.
TEST(WhoWaits, AChainEndsAtTheRankThatIsInsideNothing) {
  MemorySource source;
  fill(source, hang({2, 3}));
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const int rank : {2, 3}) {
      Collective call = call_of(rank, step, 99);
      call.nranks = 2;
      call.rank = rank - 2;
      call.timestamp_ns += 10 * kNsPerMs;
      if (step == kSteps - 1) {
        leave_open(call);
      }
      if (step < kSteps - 1 || rank == 2) {
        source.accept(call);
      }
    }
  }
  const Json waits = ServedJob(source).ask("who_waits");
  EXPECT_EQ(at(waits, "total"), Json(2));
  EXPECT_EQ(at(waits, "held_up_by_total"), Json(1));
  EXPECT_EQ(at(waits, "held_up_by.0.rank"), Json(3));
}

TEST(WhoWaits, TheNetworkIsLookedAtOnlyWhereAllHaveArrived) {
  MemorySource source;
  fill(source, hang());
  add_ring(source);
  for (const auto& [cookie, node] : std::map<uint64_t, int>{{100, 0}, {101, 1}, {102, 2}, {103, 3}}) {
    for (int i = 0; i < 4; ++i) {  // 2 -> 3 has data in flight; the others have nothing to send
      TcpSample row{
          .node_id = node_of_rank(node), .timestamp_ns = kLastArrivalNs + (100 + i) * kNsPerMs, .cookie = cookie};
      row.pid = 10 + node;
      row.bytes_acked = 1000;
      row.unacked_bytes = node == 2 ? 500 : 0;
      source.accept(row);
    }
  }
  ServedJob job(source);
  const Json waits = job.ask("who_waits", R"({"time":"+5050ms"})");
  EXPECT_EQ(at(waits, "instances.0.inside_total"), Json(4));
  EXPECT_EQ(at(waits, "held_up_by_total"), Json(0));
  EXPECT_EQ(at(waits, "transfer.edges_total"), Json(3));
  EXPECT_EQ(at(waits, "transfer.others_wait_for.rank"), Json(3));
  EXPECT_EQ(served(hang({2})).ask("who_waits").find("transfer"), nullptr);
}

/// Loss on the connection from rank 1 to rank 2 in the last call, which all have entered. Rank 0 is through with it and
/// waits in the next for the others; so rank 1, which is through as well, only seems to hold it up.
TEST(WhoWaits, AStuckTransferComesBeforeTheRanksAwaitedBehindIt) {
  MemorySource source;
  Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == kSteps - 1 && rank >= 2) {
      call.duration_ns = 2 * kNsPerSecond;
    }
    return true;
  };
  fill(source, ending);
  add_ring(source);
  Collective next = call_of(0, kSteps);
  leave_open(next);
  source.accept(next);
  for (int i = 0; i < 4; ++i) {
    TcpSample row{
        .node_id = node_of_rank(1), .timestamp_ns = kLastArrivalNs + (100 + i) * kNsPerMs, .cookie = 101, .pid = 11};
    row.bytes_acked = 1000;
    row.unacked_bytes = 500;
    row.lost_out = 2;
    row.packets_out = 4;
    row.ca_state = 4;
    row.mss = 1448;
    source.accept(row);
  }
  for (int i = 0; i < 4; ++i) {
    TcpEvent row{.event_id = make_event_id(node_of_rank(1), 6'000'000 + i), .node_id = node_of_rank(1)};
    row.timestamp_ns = kLastArrivalNs + (100 + i) * kNsPerMs;
    row.event = TcpEventKind::kRetransmit;
    row.pid = 11;
    row.rank = 1;
    row.cookie = 101;
    row.len = 1448;
    source.accept(row);
  }
  ServedJob job(source);
  const Json waits = job.ask("who_waits", R"({"time":"+5055ms"})");
  EXPECT_EQ(at(waits, "total"), Json(2));
  EXPECT_EQ(at(waits, "instances.0.awaited_total"), Json(0));
  EXPECT_NE(at(waits, "instances.1.awaited_total"), Json(0));
  EXPECT_EQ(at(waits, "held_up_by_total"), Json(0));
  EXPECT_EQ(at(waits, "transfer.edges.0.reason"), Json("loss"));
  EXPECT_EQ(at(waits, "transfer").find("others_wait_for"), nullptr);
  golden::expect_text(*at(job.result_of("who_waits", R"({"time":"+5055ms"})"), "content.0.text").text());
}

}  // namespace
}  // namespace stalltrace::serve::mcp
