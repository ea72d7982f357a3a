// SPDX-License-Identifier: Apache-2.0
// Tools that give numbers without a verdict, on small jobs whose truth is known.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/events/imported_evidence.h"
#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/testing/tool_jobs.h"
#include "tests/support/golden_text.h"

namespace stalltrace::serve::mcp {
namespace {

using testing::HasSubstr;

/// A call of a node of which an NCCL log was imported, in the middle of the job.
void add_logged_node(MemorySource& source) {
  const NodeId id = node_of_rank(kRanks);
  Node node{.node_id = id, .name = "logged", .agent_version = "nccl_log"};
  node.started_ns = begin_of(0);
  node.missing_evidence = kLacksDurations;
  source.accept(node);
  Collective call{.event_id = make_event_id(id, 1), .node_id = id, .timestamp_ns = begin_of(10)};
  call.pid = 77;
  call.completion = Completion::kUnobserved;
  call.seq = 10;
  call.rank = 4;
  call.nranks = kRanks;
  call.comm_id_hash = kHash;
  source.accept(call);
}

TEST(Profiles, LeaveOutWhatLogsShow) {
  MemorySource plain;
  fill(plain, {});
  MemorySource source;
  fill(source, {});
  add_logged_node(source);
  ServedJob job(source);
  ServedJob measured(plain);
  for (const char* tool : {"slowest", "ranks", "who_waits"}) {
    EXPECT_EQ(job.ask(tool), measured.ask(tool)) << tool;
  }
  EXPECT_EQ(at(job.ask("health"), "healthy"), Json("not_known"));
}

TEST(Ranks, AHangIsShownInEachPartOfIt) {
  ServedJob job = served(hang({2}));
  const Json ranks = job.ask("ranks", R"({"from":"+100s","to":"+110s"})");
  EXPECT_EQ(at(ranks, "total"), Json(4));
  EXPECT_EQ(at(ranks, "ranks.0.who.rank"), Json(2));
  EXPECT_EQ(at(ranks, "ranks.0.absent_from"), Json(1));
  EXPECT_EQ(at(ranks, "ranks.0.others_waited_for_it_ms"), Json(10'000.0));
  EXPECT_EQ(at(ranks, "ranks.0.inside_percent"), Json(0.0));
  for (int i = 1; i < 4; ++i) {
    const Json row = at(ranks, fmt::format("ranks.{}", i));
    EXPECT_EQ(at(row, "hanging_calls"), Json(1));
    EXPECT_EQ(at(row, "waited_for_others_ms"), Json(10'000.0));
    EXPECT_EQ(at(row, "inside_percent"), Json(100.0));
  }
  EXPECT_EQ(at(job.ask("slowest", R"({"from":"+100s","to":"+110s"})"), "total"), Json(1));
  EXPECT_EQ(at(job.ask("ranks", R"({"from":"+4900ms","to":"+5050ms"})"), "ranks.0.others_waited_for_it_ms"),
            Json(100.0));
}

TEST(Ranks, AWaitThatWasReportedWhileItLastedCountsOnce) {
  MemorySource source;
  fill(source, {});
  const auto report = [&](int64_t start_ns, int32_t tid, int64_t length_ns, bool open) {
    WaitSpan span{.node_id = node_of_rank(1), .timestamp_ns = start_ns, .window_ns = length_ns};
    span.waited_ns = length_ns;
    span.open = open;
    span.pid = 11;
    span.tid = tid;
    source.accept(span);
  };
  report(begin_of(10), 11, 20 * kNsPerMs, true);
  report(begin_of(10), 11, 35 * kNsPerMs, true);
  report(begin_of(10), 11, 100 * kNsPerMs, false);
  report(begin_of(10), 12, 7 * kNsPerMs, true);  // another thread, whose end was not seen
  report(begin_of(20), 11, kNsPerMs, true);
  ServedJob job(source);
  EXPECT_EQ(at(job.ask("ranks", R"({"rank":1})"), "ranks.0.threads.blocked_ms"), Json(100.0 + 7.0 + 1.0));
}

TEST(Ranks, PutTheOneThatTheOthersWaitForFirst) {
  MemorySource source;
  fill(source, late_job());
  WaitSpan span{.node_id = node_of_rank(1), .timestamp_ns = begin_of(50), .window_ns = 20 * kNsPerMs};
  span.waited_ns = 15 * kNsPerMs;
  span.kind = WaitKind::kRunnable;
  span.pid = span.tid = 11;
  span.by_pid = 999;
  span.by_name = kHostile;
  span.by_waited_ns = 12 * kNsPerMs;
  source.accept(span);
  ServedJob job(source);
  const Json ranks = job.ask("ranks");
  EXPECT_EQ(at(ranks, "ranks.0.who.rank"), Json(1));
  EXPECT_EQ(at(ranks, "ranks.0.arrived_last"), Json(80));
  EXPECT_EQ(at(ranks, "ranks.0.others_waited_for_it_ms"), Json(80 * (30.1 - 0.2)));
  const Json one = job.ask("ranks", R"({"rank":1})");
  EXPECT_EQ(at(one, "total"), Json(1));
  EXPECT_EQ(at(one, "ranks.0.threads.runnable_ms"), Json(15.0));
  EXPECT_EQ(at(one, "ranks.0.threads.ran_instead.0.at_least_ms"), Json(12.0));
  golden::expect_text(job.failure_of("ranks", R"({"rank":9})"));
}

TEST(Ranks, PutARankThatNeverCameFirst) {
  const Json ranks = served(hang({2})).ask("ranks");
  EXPECT_EQ(at(ranks, "ranks.0.who.rank"), Json(2));
  EXPECT_EQ(at(ranks, "ranks.0.absent_from"), Json(1));
  EXPECT_EQ(at(ranks, "ranks.0.hanging_calls"), Json(0));
  EXPECT_GT(at(ranks, "ranks.0.others_waited_for_it_ms").number(), 500'000);
  EXPECT_EQ(at(ranks, "ranks.1.hanging_calls"), Json(1));
  EXPECT_EQ(at(ranks, "ranks.1.absent_from"), Json(0));
}

TEST(Links, ALinkThatRecoversAsARangeBeginsIsSeen) {
  MemorySource source;
  fill(source, {});
  add_ring(source);  // in recovery from +1500 ms to +1510 ms
  ServedJob job(source);
  const auto recovery = [&](const char* range) { return at(job.ask("links", range), "links.0.recovery_ms"); };
  EXPECT_EQ(recovery(R"({"from":"+1505ms","to":"+2s"})"), Json(5.0));
  EXPECT_EQ(recovery(R"({"from":"+1502ms","to":"+1506ms"})"), Json(4.0));
  EXPECT_EQ(recovery(R"({"from":"+1s","to":"+1503ms"})"), Json(3.0));
  EXPECT_EQ(recovery(R"({"from":"+1600ms","to":"+2s"})"), Json(0.0));
}

TEST(Links, CountWhatTcpRecorded) {
  MemorySource source;
  fill(source, {});
  add_ring(source);
  ServedJob job(source);
  const Json links = job.ask("links");
  EXPECT_EQ(at(links, "links.0.src_rank"), Json(0));
  EXPECT_EQ(at(links, "links.0.dst_rank"), Json(1));
  EXPECT_EQ(at(links, "links.0.retransmissions"), Json(2));
  EXPECT_EQ(at(links, "links.0.recovery_ms"), Json(10.0));
  EXPECT_EQ(at(links, "links.0.retransmission_timeouts"), Json(2));
  EXPECT_EQ(at(links, "links.0.acked_bytes"), Json(9000));
  EXPECT_EQ(at(links, "links.0.median_rtt_ms"), Json(0.1));
  EXPECT_EQ(at(links, "links.0.longest_rtt_ms"), Json(9.0));
  EXPECT_EQ(at(links, "links.0.dropped_in_host_packets"), Json(7));
  EXPECT_EQ(at(job.ask("links", R"({"rank":3})"), "total"), Json(4));  // to and from both neighbours
  EXPECT_EQ(at(job.ask("links", R"({"to":"+1s"})"), "links.0.retransmissions"), Json(0));
}

TEST(Stacks, AreFoldedWithTheirRanks) {
  MemorySource source;
  fill(source, late_job());
  source.accept(Stack{.stack_id = 5, .frames = "load_batch (/home/u/data.py:212)\nmain (/home/u/train.py:10)\n"});
  for (int i = 0; i < 3; ++i) {
    PythonStack row{.node_id = node_of_rank(1), .timestamp_ns = begin_of(40 + i), .duration_ns = 1000};
    row.pid = row.tid = row.rank_pid = 11;
    row.activity = kHostile;
    row.stack_id = 5;
    source.accept(row);
  }
  ServedJob job(source);
  const Json stacks = job.ask("stacks", R"({"time":"+2s"})");
  EXPECT_EQ(at(stacks, "samples"), Json(3));
  EXPECT_EQ(at(stacks, "total"), Json(1));
  EXPECT_EQ(at(stacks, "stacks.0.ranks.0.rank"), Json(1));
  EXPECT_THAT(*at(stacks, "stacks.0.own_line.recorded_text").text(), HasSubstr("load_batch"));
  EXPECT_EQ(at(stacks, "stacks.0.frames").size(), 2U);
  EXPECT_EQ(at(job.ask("stacks", R"({"frames":1})"), "stacks.0.frames").size(), 1U);
  EXPECT_EQ(at(job.ask("stacks", R"({"rank":0})"), "samples"), Json(0));
  EXPECT_EQ(at(job.ask("stacks", R"({"time":"+4s","margin_s":1})"), "samples"), Json(0));
}

TEST(Compare, GivesTheRatioOfTwoTimes) {
  ServedJob job = served(late_job(50));
  const Json compared = job.ask("compare", R"({"a":{"to":"+2500ms"},"b":{"from":"+2500ms"}})");
  EXPECT_EQ(at(compared, "by_communicator"), Json(true));
  EXPECT_EQ(at(compared, "total"), Json(1));
  EXPECT_EQ(at(compared, "classes.0.b.instances"), Json(50));
  EXPECT_EQ(at(compared, "classes.0.a.median_total_ms"), Json(5.3));
  EXPECT_EQ(at(compared, "classes.0.b.median_total_ms"), Json(35.3));
  EXPECT_EQ(at(compared, "classes.0.total_ratio"), Json(6.66));
  EXPECT_EQ(at(compared, "classes.0.transfer_ratio"), Json(1.04));
  const Json recordings = job.ask("compare", R"({"a":{"recording":"job.db"},"b":{}})");
  EXPECT_EQ(at(recordings, "by_communicator"), Json(false));
  EXPECT_EQ(at(recordings, "classes.0.total_ratio"), Json(1.0));
  golden::expect_text(job.failure_of("compare", R"({"a":{},"b":{}})"));
  golden::expect_text(job.failure_of("compare", R"({"a":{"recording":"other"},"b":{}})"));
  golden::expect_text(job.failure_of("compare", R"({"a":{"rank":1},"b":{}})"));
}

TEST(Sql, GivesRowsWithinItsLimits) {
  ServedJob job = served({});
  const Json rows = job.ask("sql", R"({"sql":"SELECT rank, count(*) FROM collective GROUP BY rank ORDER BY rank"})");
  EXPECT_EQ(at(rows, "columns").dump(), R"x(["recording","rank","count(*)"])x");
  EXPECT_EQ(at(rows, "recorded_rows.3").dump(), R"(["job.db",3,100])");
  EXPECT_EQ(at(rows, "truncated"), Json(false));
  const Json some = job.ask("sql", R"({"sql":"SELECT event_id FROM collective","limit":5})");
  EXPECT_EQ(at(some, "row_count"), Json(5));
  EXPECT_EQ(at(some, "truncated"), Json(true));
  const Json exact = job.ask("sql", R"({"sql":"SELECT 5 FROM collective LIMIT 5","limit":5})");
  EXPECT_EQ(at(exact, "truncated"), Json(false));
  const Json wide = job.ask("sql", R"({"sql":"SELECT printf('%.*c', 1900, 'x') FROM collective","limit":1000})");
  EXPECT_EQ(at(wide, "truncated"), Json(true));
  EXPECT_LT(*at(wide, "row_count").integer(), 16);
  EXPECT_EQ(
      at(job.ask("sql", R"({"sql":"SELECT 9007199254740993, 1.5, NULL, x'00ff', 'a'"})"), "recorded_rows.0").dump(),
      R"(["job.db","9007199254740993",1.5,null,"00ff","a"])");
}

TEST(Sql, RefusesWhatIsNoSelect) {
  ServedJob job = served({});
  for (const char* sql : {"DELETE FROM collective", "PRAGMA journal_mode=DELETE", "ATTACH '/etc/passwd' AS x",
                          "SELECT load_extension('x')", "SELECT 1; SELECT 2", "SELEKT", ""}) {
    EXPECT_THAT(job.failure_of("sql", Json::object({{"sql", sql}}).dump()), HasSubstr("Failed")) << sql;
  }
  golden::expect_text(job.failure_of("sql", R"({"sql":"SELECT 1","recording":"../x"})"));
  golden::expect_text(job.failure_of(
      "sql",
      R"({"sql":"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n","timeout_s":1})"));
}

}  // namespace
}  // namespace stalltrace::serve::mcp
