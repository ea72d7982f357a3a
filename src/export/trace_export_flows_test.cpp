// SPDX-License-Identifier: Apache-2.0
// Arrows from the culprit of a finding to the calls that waited.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <span>

#include "export/testing/exported_job.h"
#include "tests/support/golden_text.h"

namespace stalltrace::trace_export {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TEST(TraceExport, FlowsLeadFromTheCulpritToTheCallsThatWaited) {
  Job job;
  for (const int32_t rank : {0, 1}) {
    job.source.accept(call(rank, 1, rank * 500, 1000 - rank * 500));
    job.source.accept(call(rank, 2, 2000 + rank * 500, std::nullopt));
  }
  Finding finding{.cause = Cause::kLateRank};
  finding.culprit = Culprit{.node = "node1", .rank = 1, .pid = 101};
  finding.window = {kStart + 100, kStart + 2500};
  finding.summary = "Rank 1 is late";
  for (const int64_t seq : {1, 2}) {
    StalledInstance instance{.waited = {kStart + 2000 * (seq - 1) + 100, kStart + 2000 * (seq - 1) + 500}, .calls = {}};
    for (const int32_t rank : {0, 1}) {
      instance.calls.push_back({.node_id = kNode,
                                .pid = 100 + rank,
                                .comm_id_hash = 0x5eed,
                                .seq = seq,
                                .arrival_ns = kStart + 2000 * (seq - 1) + rank * 500,
                                .op = Operation::kAllReduce});
    }
    finding.stalled.push_back(instance);
  }
  job.report.findings.push_back(finding);
  const DecodedTrace trace = job.exported();
  const auto flows = trace.flows();
  ASSERT_EQ(flows.size(), 2U);
  for (const auto& [stall, waiting] : flows) {
    EXPECT_EQ(stall.name, "late_rank");
    golden::expect_text(trace.path(stall.track));
    EXPECT_THAT(trace.path(waiting.track), HasSubstr("rank 0 "));
    EXPECT_EQ(stall.time_ns, waiting.time_ns);  // it begins with the first call that waited
    EXPECT_EQ(stall.notes.at("waiting_calls"), "1");
  }
  const auto findings = trace.of(trace.slices, "finding");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].notes.at("summary"), "Rank 1 is late");
  EXPECT_EQ(trace.path(findings[0].track), "findings / findings");
}

/// Rank 0 waited in each instance, for rank 1; the cost says which comes first.
Finding late_finding(Job& job, std::span<const int64_t> begins_ns, int64_t length_ns) {
  Finding finding{.cause = Cause::kLateRank};
  finding.culprit = Culprit{.node = "node1", .rank = 1, .pid = 101};
  finding.window = {kStart, kStart + kNsPerSecond};
  for (const int64_t begin_ns : begins_ns) {
    const int64_t seq = begin_ns + 1;
    job.source.accept(call(0, seq, begin_ns, length_ns));
    StalledCall waiting{.node_id = kNode, .pid = 100, .comm_id_hash = 0x5eed, .seq = seq};
    waiting.arrival_ns = kStart + begin_ns;
    waiting.op = Operation::kAllReduce;
    finding.stalled.push_back({.waited = {kStart + begin_ns, kStart + begin_ns + length_ns}, .calls = {waiting}});
  }
  return finding;
}

TEST(TraceExport, StallsTakeNoMoreTracksThanOverlap) {
  Job job;
  std::vector<int64_t> begins_ns;
  for (int64_t i = 0; i < 200; ++i) {
    begins_ns.push_back(10 * ((i * 77) % 200));  // two at a time, in no order
  }
  job.report.findings.push_back(late_finding(job, begins_ns, 15));
  for (const int64_t from_ns : {500, 0, 700, 200}) {
    Finding finding;
    finding.window = {kStart + from_ns, kStart + from_ns + 200};
    job.report.findings.push_back(finding);
  }
  job.report.findings[0].window = {kStart + 900, kStart + 1000};
  const DecodedTrace trace = job.exported();
  std::set<uint64_t> tracks;
  for (const DecodedEvent& slice : trace.of(trace.slices, "stall")) {
    tracks.insert(slice.track);
  }
  EXPECT_EQ(tracks.size(), 2U);
  EXPECT_EQ(trace.flows().size(), 200U);
  std::vector<std::string> numbers;
  for (const DecodedEvent& slice : trace.of(trace.slices, "finding")) {
    EXPECT_EQ(trace.path(slice.track), "findings / findings");
    numbers.push_back(slice.notes.at("finding"));
  }
  EXPECT_THAT(numbers, ElementsAre("3", "5", "2", "4", "1"));
}

TEST(TraceExport, NoFlowComesFromAStallThatIsNoSlice) {
  Job job;
  std::vector<int64_t> begins_ns(70);
  std::iota(begins_ns.begin(), begins_ns.end(), int64_t{0});
  job.report.findings.push_back(late_finding(job, begins_ns, 0));
  for (StalledInstance& instance : job.report.findings[0].stalled) {
    instance.waited.to_ns += 1000;
  }
  const DecodedTrace trace = job.exported();
  EXPECT_EQ(trace.of(trace.slices, "stall").size(), TrackWriter::kMostSubtracks);
  EXPECT_EQ(trace.of(trace.slices, "collective").size(), 70U);
  EXPECT_EQ(trace.flows().size(), TrackWriter::kMostSubtracks);
  for (const DecodedEvent& slice : trace.of(trace.slices, "collective")) {
    EXPECT_EQ(slice.flows_in.size(), slice.time_ns < kStart + 64 ? 1U : 0U);
  }
}

/// The analysis lists the calls of the most expensive instances only.
TEST(TraceExport, StalledInstancesWithoutTheirCallsAreCounted) {
  Job job;
  Finding finding = late_finding(job, std::to_array<int64_t>({0, 100}), 50);
  finding.collectives_affected = 9;
  job.report.findings.push_back(finding);  // its list is not full: the other collectives did not stall
  job.exported();
  EXPECT_EQ(job.summary.stalls_without_calls, 0U);
  job.options.most_stalled_calls = 2;
  job.exported();
  EXPECT_EQ(job.summary.stalls_without_calls, 7U);
}

/// A call that was queued arrives, for the analysis, when what was before it ended. Of Sends only the time is their
/// own.
TEST(TraceExport, FlowsFindTheirCallsByNumberOrTime) {
  Job job;
  job.source.accept(call(0, 1, 1000, 9000));
  job.source.accept(call(1, 1, 1000, 9000));
  Collective early = call(0, 1, 100, 10);  // of another communicator of that name: it ended before
  early.event_id = make_event_id(kNode, 900);
  job.source.accept(early);
  for (const int64_t time : {2000, 3000}) {
    Collective send = call(0, 5, time, 5000);
    send.event_id = make_event_id(kNode, static_cast<uint64_t>(time));
    send.op = Operation::kSend;
    job.source.accept(send);
  }
  Finding finding{.cause = Cause::kPacketLoss};
  finding.link = LinkEndpoints{.src_rank = 1, .dst_rank = 0, .src = {}, .dst = {}};
  const auto stalled_call = [](int32_t rank, int64_t seq, int64_t begin_ns, Operation op) {
    return StalledCall{.node_id = kNode,
                       .pid = 100 + rank,
                       .comm_id_hash = 0x5eed,
                       .seq = seq,
                       .arrival_ns = kStart + begin_ns,
                       .op = op};
  };
  const TimeRange waited{kStart + 5000, kStart + 8000};
  finding.stalled = {
      {.waited = waited,
       .calls = {stalled_call(0, 1, 4500, Operation::kAllReduce), stalled_call(1, 1, 4500, Operation::kAllReduce)}},
      {.waited = waited, .calls = {stalled_call(0, 5, 3000, Operation::kSend)}}};
  job.report.findings = {finding, finding};
  const DecodedTrace trace = job.exported();
  std::vector<std::string> found;
  for (const auto& [stall, waiting] : trace.flows()) {
    EXPECT_LE(stall.time_ns, waiting.time_ns);
    found.push_back(stall.notes.at("finding") + " " + waiting.notes.at("id"));
    EXPECT_THAT(trace.path(stall.track), HasSubstr("rank 1 "));  // the link's sender, which waited itself
  }
  EXPECT_THAT(found, UnorderedElementsAre("1 node1:101", "1 node1:102", "1 node1:3000", "2 node1:101", "2 node1:102",
                                          "2 node1:3000"));
}

}  // namespace
}  // namespace stalltrace::trace_export
