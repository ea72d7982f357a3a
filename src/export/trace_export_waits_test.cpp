// SPDX-License-Identifier: Apache-2.0
// Connections, waits and who ran instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "export/testing/exported_job.h"

namespace stalltrace::trace_export {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST(TraceExport, AConnectionIsAFolderBelowItsProcess) {
  Job job;
  Connection row{.node_id = kNode, .cookie = 77, .pid = 100};
  row.source = {"10.0.0.1", 40000};
  row.destination = {"10.0.0.2", 50000};
  row.peer_rank = 1;
  job.source.accept(row);
  job.source.accept(
      NetSpan{.node_id = kNode, .timestamp_ns = kStart, .duration_ns = 10, .cookie = 77, .is_send = true});
  job.source.accept(NetSpan{.node_id = kNode, .timestamp_ns = kStart, .duration_ns = 10, .cookie = 77});
  TcpEvent event{.event_id = make_event_id(kNode, 1), .node_id = kNode, .timestamp_ns = kStart + 5, .cookie = 77};
  event.event = TcpEventKind::kCongestionState;
  event.state = 3;
  job.source.accept(event);
  event.event_id += 1;
  event.cookie = 78;  // no row of `connection`
  event.pid = 101;
  event.event = TcpEventKind::kRetransmit;
  event.source = {"10.0.0.2", 1};
  event.destination = {"10.0.0.1", 2};
  job.source.accept(event);
  TcpSample sample{.node_id = kNode, .timestamp_ns = kStart, .cookie = 77, .cwnd = 12};
  job.source.accept(sample);
  sample.srtt_us = 90;
  sample.timestamp_ns += 1;
  job.source.accept(sample);
  PacketDrop drop{.node_id = kNode, .timestamp_ns = kStart, .duration_ns = 5, .cookie = 77, .incoming = true};
  drop.reason = "NETFILTER_DROP";
  job.source.accept(drop);
  const DecodedTrace trace = job.exported();
  const std::string folder = "rank 0 · node1 · pid 100 / 10.0.0.1:40000 -> 10.0.0.2:50000, rank 1";
  EXPECT_THAT(paths(trace, trace.slices), UnorderedElementsAre(folder + " / sends", folder + " / receives",
                                                               folder + " / packets dropped by the host"));
  EXPECT_THAT(
      paths(trace, trace.of(trace.instants, "tcp_event")),
      UnorderedElementsAre(folder + " / events", "rank 1 · node1 · pid 101 / 10.0.0.2:1 -> 10.0.0.1:2 / events"));
  EXPECT_EQ(trace.of(trace.instants, "tcp_event").at(0).notes.at("state"), "recovery");
  std::map<std::string, int> values;
  for (const DecodedEvent& value : trace.counters) {
    ++values[trace.tracks.at(value.track).name + " in " + *trace.tracks.at(value.track).unit];
  }
  EXPECT_EQ(values, (std::map<std::string, int>{{"congestion window in packets", 2},
                                                {"round trip time in us", 1},
                                                {"unacknowledged in bytes", 2},
                                                {"not yet sent in bytes", 2},
                                                {"not yet read in bytes", 2}}));
}

TEST(TraceExport, WaitsNameWhoRanInstead) {
  Job job;
  WaitSpan wait{.node_id = kNode, .timestamp_ns = kStart, .window_ns = 100, .waited_ns = 100};
  wait.kind = WaitKind::kRunnable;
  wait.pid = 100;
  wait.tid = 105;
  wait.thread_name = "train";
  wait.by_pid = 9;
  wait.by_name = "stress";
  wait.by_waited_ns = 80;
  job.source.accept(wait);
  wait.timestamp_ns += 100;
  wait.waited_ns = 40;
  job.source.accept(wait);
  const DecodedTrace trace = job.exported();
  ASSERT_EQ(trace.slices.size(), 2U);
  EXPECT_EQ(trace.slices[0].name, "runnable");
  EXPECT_EQ(trace.slices[0].notes.at("ran_instead"), "stress");
  EXPECT_EQ(trace.slices[0].notes.at("ran_instead_ns"), "80");
  EXPECT_EQ(trace.slices[1].name, "runnable, partly");
  EXPECT_THAT(trace.path(trace.slices[0].track), HasSubstr("thread 105 train"));
}

/// "begin+length", with "?" if it was open, of each wait in the order of time.
std::vector<std::string> waits(const DecodedTrace& trace) {
  std::vector<std::string> found;
  for (const DecodedEvent& slice : trace.of(trace.slices, "wait")) {
    found.push_back(std::to_string(slice.time_ns - kStart) + "+" +
                    std::to_string(slice.end_ns.value() - slice.time_ns) + (slice.notes.contains("open") ? "?" : ""));
  }
  return found;
}

TEST(TraceExport, AWaitThatWasReportedOpenEndsWhereItWasLastSeen) {
  Job job;
  const auto wait = [&job](int32_t tid, int64_t begin_ns, int64_t window_ns, bool open) {
    WaitSpan row{.node_id = kNode, .timestamp_ns = kStart + begin_ns, .window_ns = window_ns, .waited_ns = window_ns};
    row.pid = 100;
    row.tid = tid;
    row.open = open;
    job.source.accept(row);
  };
  wait(1, 0, 200, true);
  wait(1, 0, 300, true);
  wait(1, 0, 1000, false);
  wait(1, 1500, 200, true);
  wait(1, 1600, 10, false);
  wait(2, 1700, 50, false);
  wait(2, 1800, 200, true);
  wait(1, 2000, 200, true);
  wait(3, 2000, 100, true);
  const DecodedTrace trace = job.exported();
  EXPECT_THAT(waits(trace),
              UnorderedElementsAre("0+1000", "1500+100?", "1600+10", "1700+50", "1800+200?", "2000+200?", "2000+100?"));
  std::set<uint64_t> tracks;
  for (const DecodedEvent& slice : trace.slices) {
    tracks.insert(slice.track);
  }
  EXPECT_EQ(tracks.size(), 3U);  // one for each thread
  EXPECT_EQ(job.summary.unended, 0U);

  job.options.range = {kStart + 2150, kStart + 5000};
  EXPECT_THAT(waits(job.exported()), ElementsAre("2000+200?"));
}

/// As many reports of a wait as there are subtracks leave room for the waits after them.
TEST(TraceExport, OpenWaitsTakeNoSubtracks) {
  Job job;
  for (int64_t i = 0; i < 200; ++i) {
    WaitSpan row{.node_id = kNode, .timestamp_ns = kStart + 1000 * i, .window_ns = 200, .waited_ns = 200};
    row.pid = row.tid = 100;
    row.open = true;
    job.source.accept(row);
    row.window_ns = row.waited_ns = 900;
    row.open = i % 3 == 0;
    job.source.accept(row);
  }
  const DecodedTrace trace = job.exported();
  EXPECT_EQ(trace.slices.size(), 200U);
  EXPECT_EQ(job.summary.crowded, 0U);
  EXPECT_EQ(job.summary.unended, 0U);
}

}  // namespace
}  // namespace stalltrace::trace_export
