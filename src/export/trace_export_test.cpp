// SPDX-License-Identifier: Apache-2.0
// Which tracks a recording gives and what is on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "export/testing/exported_job.h"
#include "tests/support/golden_text.h"

namespace stalltrace::trace_export {
namespace {

using namespace std::string_literals;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(TraceExport, ACallIsASliceFromArrivalToCompletionAndOneOnTheCpu) {
  Job job;
  Collective row = call(1, 7, 1000, 5000);
  row.launch_ns = 300;
  row.called_ns = kStart + 900;
  row.kernel_start_ns = kStart + 2000;
  row.kernel_end_ns = kStart + 5500;
  row.stream = 0xabc;
  row.stack_id = 3;
  row.count = 1024;
  row.datatype = 7;
  job.source.accept(Stack{3, "train\nmain"});
  job.source.accept(row);
  const DecodedTrace trace = job.exported();
  const auto calls = trace.of(trace.slices, "collective");
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].name, "ALL_REDUCE");
  EXPECT_EQ(calls[0].time_ns, kStart + 1000);
  EXPECT_EQ(calls[0].end_ns, kStart + 6000);
  EXPECT_EQ(trace.path(calls[0].track), "rank 1 · node1 · pid 101 / collectives of 0x0000000000005eed (2 ranks)");
  EXPECT_EQ(calls[0].notes.at("id"), "node1:702");
  EXPECT_EQ(calls[0].notes.at("seq"), "7");
  EXPECT_EQ(calls[0].notes.at("bytes"), "4096");
  EXPECT_EQ(calls[0].notes.at("datatype"), "float32");
  EXPECT_EQ(calls[0].notes.at("stack"), "train\nmain");
  const auto launches = trace.of(trace.slices, "launch");
  ASSERT_EQ(launches.size(), 1U);
  EXPECT_EQ(launches[0].time_ns, kStart + 900);
  EXPECT_EQ(launches[0].end_ns, kStart + 1200);
  const auto kernels = trace.of(trace.slices, "kernel");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].end_ns, kStart + 5500);
  EXPECT_THAT(trace.path(kernels[0].track), HasSubstr("GPU kernels, stream 0xabc"));
}

TEST(TraceExport, AnOpenCallHasNoEndAndAnUnobservedOneNoLength) {
  Job job;
  job.source.accept(call(0, 1, 0, std::nullopt));
  Collective unobserved = call(1, 1, 0, std::nullopt);
  unobserved.completion = Completion::kUnobserved;
  unobserved.launch_ns = 50;
  job.source.accept(unobserved);
  const DecodedTrace trace = job.exported();
  const auto calls = trace.of(trace.slices, "collective");
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].end_ns, std::nullopt);
  EXPECT_EQ(job.summary.unended, 1U);
  EXPECT_EQ(trace.of(trace.instants, "unobserved").size(), 1U);
}

/// The decoder reports slices within others, so that this holds for all tests.
TEST(TraceExport, OverlappingCallsGetSubtracks) {
  Job job;
  job.source.accept(call(0, 1, 0, 100));
  job.source.accept(call(0, 2, 50, 100));
  job.source.accept(call(0, 3, 100, 20));  // fits behind the first
  job.source.accept(call(0, 4, 150, 0));   // behind the second, and without a length
  job.source.accept(call(0, 5, 150, 10));
  const DecodedTrace trace = job.exported();
  const std::string first = "rank 0 · node1 · pid 100 / collectives of 0x0000000000005eed (2 ranks)";
  EXPECT_THAT(paths(trace, trace.of(trace.slices, "collective")),
              ElementsAre(first, first + " (2)", first, first, first));
}

TEST(TraceExport, MoreAtATimeThanSubtracksAreInstants) {
  Job job;
  for (int64_t i = 0; i < 70; ++i) {
    job.source.accept(call(0, i, i, std::nullopt));
  }
  const DecodedTrace trace = job.exported();
  EXPECT_EQ(trace.slices.size(), TrackWriter::kMostSubtracks);
  EXPECT_EQ(job.summary.crowded, 70 - TrackWriter::kMostSubtracks);
  golden::expect_text(trace.of(trace.instants, "collective").at(0).notes.at("problem"));
}

TEST(TraceExport, ProcessesAreInTheOrderOfTheirRanks) {
  Job job;
  job.source.accept(call(1, 1, 0, 10));
  job.source.accept(call(0, 1, 5, 10));
  Collective stranger = call(9, 1, 7, 10);  // no row of `process`
  job.source.accept(stranger);
  Communicator member{.node_id = kNode, .pid = 300, .comm_ptr = 1};
  member.rank = 2;
  member.nranks = 4;
  job.source.accept(member);
  const DecodedTrace trace = job.exported();
  std::vector<std::string> processes;
  for (const auto& [id, track] : trace.tracks) {
    if (track.is_process) {
      processes.push_back(track.name);
    }
  }
  EXPECT_THAT(processes, ElementsAre("rank 0 · node1 · pid 100", "rank 1 · node1 · pid 101", "rank 2 · node1 · pid 300",
                                     "host of node1", "no rank · node1 · pid 109"));
}

TEST(TraceExport, ProcessesOfOnePidOnTwoNodesStayApart) {
  Job job;
  constexpr NodeId kOther = 6;
  job.source.accept(Node{.node_id = kOther, .name = "node1", .started_ns = kStart});
  job.clocks.push_back({kOther, 0, 0});
  Process twin{.node_id = kOther, .pid = 101, .start_ns = kStart};
  twin.rank = 1;
  job.source.accept(twin);
  job.source.accept(call(1, 1, 0, 10));
  job.source.accept(call(1, 1, 0, 10, kOther));
  const DecodedTrace trace = job.exported();  // the decoder reports equal pids
  EXPECT_THAT(paths(trace, trace.slices), UnorderedElementsAre(HasSubstr("rank 1 · node1 · pid 101"),
                                                               HasSubstr("rank 1 · node1 (run 2) · pid 101")));
}

TEST(TraceExport, AllNodesAreOnOneClock) {
  Job job;
  constexpr NodeId kOther = 6;
  job.source.accept(Node{.node_id = kOther, .name = "node2", .started_ns = kStart});
  job.clocks = {{kNode, 0, 0}, {kOther, -3 * kNsPerSecond, 2000}};
  job.source.accept(call(0, 1, 4 * kNsPerSecond, 10));
  job.source.accept(call(1, 1, 7 * kNsPerSecond, 10, kOther));
  job.options.range = {kStart + 3 * kNsPerSecond, kStart + 5 * kNsPerSecond};  // of the common clock
  const DecodedTrace trace = job.exported();
  ASSERT_EQ(trace.slices.size(), 2U);
  EXPECT_EQ(trace.slices[0].time_ns, trace.slices[1].time_ns);
  std::vector<std::string> clocks;
  for (const DecodedEvent& event : trace.of(trace.instants, "clock")) {
    clocks.push_back(event.notes.at("moved_by_ns") + " " + event.notes.at("known_within_ns"));
  }
  EXPECT_THAT(clocks, UnorderedElementsAre("0 0", "-3000000000 2000"));
}

TEST(TraceExport, OnlyWhatOverlapsTheRangeAndOnce) {
  Job job;
  job.source.accept(call(0, 1, 0, 1000));
  job.source.accept(call(0, 2, 2000, 1000));
  job.source.accept(call(0, 3, 4000, 1000));
  job.options.range = {kStart + 2500, kStart + 4000};
  DecodedTrace trace = job.exported();
  ASSERT_EQ(trace.slices.size(), 1U);
  EXPECT_EQ(trace.slices[0].notes.at("seq"), "2");

  job.options = {.findings_only = true};
  EXPECT_THAT(job.exported().of(job.exported().slices, "collective"), IsEmpty());
  Finding finding;
  finding.window = {kStart + 500, kStart + 2100};
  job.report.findings.push_back(finding);
  finding.window = {kStart + 2900, kStart + 3000};  // the second call overlaps both
  job.report.findings.push_back(finding);
  trace = job.exported();
  std::vector<std::string> numbers;
  for (const DecodedEvent& slice : trace.of(trace.slices, "collective")) {
    numbers.push_back(slice.notes.at("seq"));
  }
  EXPECT_THAT(numbers, ElementsAre("1", "2"));
}

TEST(TraceExport, OnlyTheRanksThatWereAskedFor) {
  Job job;
  job.source.accept(call(0, 1, 0, 1000));
  job.source.accept(call(1, 1, 0, 1000));
  job.options.ranks = {1};
  const DecodedTrace trace = job.exported();
  EXPECT_THAT(paths(trace, trace.slices), ElementsAre(HasSubstr("rank 1 ")));
  EXPECT_THAT(job.summary.absent_ranks, IsEmpty());
  job.options.ranks = {9, 1, 7, 9};
  EXPECT_THAT(paths(job.exported(), trace.slices), ElementsAre(HasSubstr("rank 1 ")));
  EXPECT_THAT(job.summary.absent_ranks, ElementsAre(7, 9));
  job.options.ranks = {4};
  std::string out;
  const Result<TraceSummary> none = job.write(out);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(none.error().remedy, HasSubstr("from 0 to 1"));
}

TEST(TraceExport, LinesOfALogAreInstantsOfTheirProcess) {
  Job job;
  LogLine line{.node_id = kNode, .timestamp_ns = kStart + 5, .pid = 101, .kind = LogKind::kTimeout, .line = 7};
  line.file = "rank1.log";
  line.text = "Watchdog caught a timeout";
  job.source.accept(line);
  job.source.accept(LogLine{.node_id = kNode, .timestamp_ns = kStart + 6, .kind = LogKind::kVersion});  // of no process
  const DecodedTrace trace = job.exported();
  const auto lines = trace.of(trace.instants, "log");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(paths(trace, lines), ElementsAre("rank 1 · node1 · pid 101 / log", "host of node1 / log"));
  EXPECT_EQ(lines[0].name, "timeout");
  EXPECT_EQ(lines[0].time_ns, kStart + 5);
  EXPECT_EQ(lines[0].notes.at("text"), line.text);
  EXPECT_EQ(lines[0].notes.at("file"), line.file);
  EXPECT_EQ(lines[0].notes.at("line"), "7");
  EXPECT_EQ(lines[1].name, "version");
}

TEST(TraceExport, StepsStacksCountersAndLosses) {
  Job job;
  ProxyStep step{.node_id = kNode, .timestamp_ns = kStart, .duration_ns = 10, .pid = 100};
  step.collective_id = make_event_id(kNode, 3);
  step.peer = 1;
  step.is_send = true;
  job.source.accept(step);
  job.source.accept(Stack{4, "load (data.py:212)\ntrain (train.py:88)"});
  PythonStack sample{.node_id = kNode, .timestamp_ns = kStart, .pid = 400, .rank_pid = 100};
  sample.stack_id = 4;
  sample.activity = "reading a FIFO";
  job.source.accept(sample);
  job.source.accept(HostSample{kNode, kStart, "throttled_us", "100:/job", 1.5});
  job.source.accept(HostSample{kNode, kStart, "bad", "", std::numeric_limits<double>::quiet_NaN()});
  job.source.accept(PortCounter{kNode, kStart, "mlx5_0", 1, "symbol_error", std::numeric_limits<uint64_t>::max()});
  job.report.losses.push_back({kNode, "ring:collective", 12});
  Process ended{.node_id = kNode, .pid = 101, .start_ns = kStart};
  ended.rank = 1;
  ended.exit_ns = kStart + 100;
  ended.exit_signal = 9;
  job.source.accept(ended);
  const DecodedTrace trace = job.exported();
  EXPECT_THAT(paths(trace, trace.slices),
              ElementsAre("rank 0 · node1 · pid 100 / NCCL proxy: to rank 1 of 0x0000000000000000"));
  EXPECT_EQ(trace.slices[0].notes.at("collective"), "node1:3");
  const auto python = trace.of(trace.instants, "python");
  ASSERT_EQ(python.size(), 1U);
  EXPECT_EQ(python[0].name, "load (data.py:212)");
  EXPECT_EQ(python[0].notes.at("activity"), "reading a FIFO");
  EXPECT_THAT(paths(trace, trace.counters), UnorderedElementsAre("host of node1 / throttled_us 100:/job",
                                                                 "host of node1 / mlx5_0 port 1 symbol_error"));
  EXPECT_EQ(job.summary.left_out, 1U);
  const auto losses = trace.of(trace.instants, "loss");
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].name, "lost: ring:collective");
  EXPECT_EQ(losses[0].notes.at("count"), "12");
  EXPECT_EQ(losses[0].time_ns, job.report.range.to_ns);
  EXPECT_EQ(trace.of(trace.instants, "process").at(0).notes.at("exit_signal"), "9");
}

/// Whatever is in the rows: a valid trace, the same each time.
TEST(TraceExport, HostileRows) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::string name = "\"],}\0\x1b[2J\n\xff\xe2\x80\xae"s;
  Job job;
  job.source.accept(Node{.node_id = 6, .name = name, .started_ns = kMin});
  job.clocks = {{kNode, kMax, kMin}, {6, kMin, std::nullopt}};
  job.source.accept(Stack{1, std::string(100'000, '\n') + name});
  EventId number = 0;
  // A reader leaves out what is beyond these (store/read/plausible.h).
  for (const int64_t time : {int64_t{-1}, int64_t{0}, kStart, int64_t{4'000'000'000'000'000'000}}) {
    for (const int64_t length : {int64_t{-5}, int64_t{0}, int64_t{1} << 53}) {
      for (const NodeId node : {kNode, NodeId{6}, NodeId{99}}) {
        Collective row = call(0, 1, 0, length, node);
        row.event_id = ++number;
        row.timestamp_ns = time;
        row.launch_ns = length;
        row.called_ns = time;
        row.kernel_start_ns = time;
        row.kernel_end_ns = length;
        row.pid = static_cast<int32_t>(time);
        row.op = Operation::kGroup;
        row.stack_id = 1;
        job.source.accept(row);
        ProxyStep step{.node_id = node, .timestamp_ns = time, .duration_ns = length, .pid = -1};
        job.source.accept(step);
        job.source.accept(NetSpan{.node_id = node, .timestamp_ns = time, .duration_ns = length, .cookie = 1});
        WaitSpan wait{.node_id = node, .timestamp_ns = time, .window_ns = length, .waited_ns = kMax};
        wait.thread_name = wait.by_name = name;
        job.source.accept(wait);
        PacketDrop drop{.node_id = node, .timestamp_ns = time, .duration_ns = length};
        drop.reason = name;
        job.source.accept(drop);
        job.source.accept(HostSample{node, time, name, name, static_cast<double>(length)});
      }
    }
  }
  Finding finding;
  finding.summary = finding.remedy = name;
  finding.culprit = Culprit{.node = name, .rank = -7, .pid = -7};
  finding.stalled.push_back({.waited = {kMax, kMin}, .calls = {{.node_id = 99, .pid = 1, .arrival_ns = kMin}}});
  job.report.findings.push_back(finding);
  job.report.losses.push_back({99, name, ~uint64_t{0}});
  job.report.range = {kMax, kMin};
  const DecodedTrace trace = job.exported();
  EXPECT_GT(job.summary.reversed, 0U);
  for (const DecodedEvent& slice : trace.slices) {
    EXPECT_GE(slice.time_ns, 0);
    EXPECT_LE(slice.time_ns, slice.end_ns.value_or(kMax));
  }
  for (const auto& [id, track] : trace.tracks) {
    EXPECT_EQ(track.name.find('\x1b'), std::string::npos);
    EXPECT_EQ(track.name.find('\0'), std::string::npos);
  }
  std::string once;
  std::string again;
  EXPECT_TRUE(job.write(once) && job.write(again));
  EXPECT_EQ(once, again);
}

TEST(TraceExport, StopsWhenAsked) {
  Job job;
  for (int64_t i = 0; i < 10'000; ++i) {
    job.source.accept(call(0, i, 10 * i, 5));
  }
  int asked = 0;
  job.options.stopped = [&asked] { return ++asked == 2; };
  std::string out;
  const Result<TraceSummary> stopped = job.write(out);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace stalltrace::trace_export
