// SPDX-License-Identifier: Apache-2.0
// A job of two ranks on one node, and its trace as read back from Perfetto's format.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "export/encode/perfetto_encoder.h"
#include "export/testing/decoded_trace.h"
#include "export/trace_export.h"
#include "model/memory_source.h"

namespace stalltrace::trace_export {

inline constexpr int64_t kStart = 1'800'000'000LL * kNsPerSecond;
inline constexpr NodeId kNode = 5;

inline Collective call(int32_t rank, int64_t seq, int64_t begin_ns, std::optional<int64_t> duration_ns,
                       NodeId node = kNode) {
  Collective row{.event_id = make_event_id(node, static_cast<uint64_t>(100 * seq + rank + 1)), .node_id = node};
  row.timestamp_ns = kStart + begin_ns;
  row.duration_ns = duration_ns;
  row.completion = duration_ns ? Completion::kSync : Completion::kOpen;
  row.seq = seq;
  row.rank = rank;
  row.nranks = 2;
  row.comm_id_hash = 0x5eed;
  row.pid = row.tid = 100 + rank;
  row.bytes = 4096;
  return row;
}

/// A source with two ranks on one node, and the report that goes with it.
struct Job {
  MemorySource source;
  Report report;
  std::vector<NodeClock> clocks{{kNode, 0, 0}};
  TraceOptions options;

  Job() {
    source.accept(Node{.node_id = kNode, .name = "node1", .started_ns = kStart});
    for (const int32_t rank : {0, 1}) {
      Process process{.node_id = kNode, .pid = 100 + rank, .start_ns = kStart};
      process.rank = rank;
      source.accept(process);
    }
    report.range = {kStart, kStart + 10 * kNsPerSecond};
    report.collectives = 1;
  }

  Result<TraceSummary> write(std::string& out) {
    const auto encoder = make_perfetto_encoder([&out](std::string_view bytes) {
      out += bytes;
      return Status();
    });
    return export_trace(source, report, clocks, options, *encoder);
  }
  DecodedTrace exported() {
    std::string out;
    const Result<TraceSummary> result = write(out);
    EXPECT_TRUE(result) << result.error().what;
    summary = result.value_or(TraceSummary());
    DecodedTrace trace(out);
    EXPECT_THAT(trace.problems, ::testing::IsEmpty());
    EXPECT_EQ(trace.slices.size(), summary.slices);
    EXPECT_EQ(trace.instants.size(), summary.instants);
    EXPECT_EQ(trace.counters.size(), summary.counter_values);
    EXPECT_EQ(trace.tracks.size(), summary.tracks);
    EXPECT_EQ(trace.flows().size(), summary.flows);
    return trace;
  }
  TraceSummary summary;
};

inline std::vector<std::string> paths(const DecodedTrace& trace, const std::vector<DecodedEvent>& events) {
  std::vector<std::string> found;
  for (const DecodedEvent& event : events) {
    found.push_back(trace.path(event.track));
  }
  return found;
}

}  // namespace stalltrace::trace_export
