// SPDX-License-Identifier: Apache-2.0
// A small healthy job, row by row, whose end a test can change, and expectations about the finding.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "analysis/explain.h"
#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis::small_job {

inline constexpr int kRanks = 4;
inline constexpr int kSteps = 100;
inline constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;
inline constexpr int64_t kStepNs = 50 * kNsPerMs;
inline constexpr int64_t kRecordedNs = 600 * kNsPerSecond;                     // agents continue long after the job
inline constexpr int64_t kLastArrivalNs = kOriginNs + (kSteps - 1) * kStepNs;  // rank 0's arrival at the last call
inline constexpr CommHash kHash = 77;

inline NodeId node_of_rank(int rank) { return static_cast<NodeId>(1 + rank); }
inline int64_t begin_of(int64_t step) { return kOriginNs + step * kStepNs; }

/// The call of one rank in one step of a healthy job.
inline Collective call_of(int rank, int64_t step, CommHash hash = kHash) {
  const NodeId node = node_of_rank(rank);
  Collective call{.event_id = make_event_id(node, static_cast<uint64_t>(step + 1) + (hash == kHash ? 0 : 1'000'000)),
                  .node_id = node};
  call.timestamp_ns = begin_of(step) + rank * 100 * kNsPerUs;
  call.duration_ns = 5 * kNsPerMs;
  call.completion = Completion::kSync;
  call.seq = step;
  call.rank = rank;
  call.nranks = kRanks;
  call.comm_id_hash = hash;
  call.comm_ptr = hash;
  call.pid = call.tid = 10 + rank;
  call.bytes = 1 << 20;
  return call;
}

inline void leave_open(Collective& call) {
  call.duration_ns.reset();
  call.completion = Completion::kOpen;
}

/// Changes that end the job or its observation: modifies the rows of each rank; false drops a call.
struct Ending {
  std::function<bool(int rank, int64_t step, Collective&)> call = [](int, int64_t, Collective&) { return true; };
  std::function<void(int rank, Process&)> process = [](int, Process&) {};
  std::function<void(int rank, Node&)> node = [](int, Node&) {};
};

/// The last call never ends for the ranks that enter it: all except `absent`.
inline Ending hang(const std::set<int>& absent = {}) {
  Ending ending;
  ending.call = [absent](int rank, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      leave_open(call);
      return !absent.contains(rank);
    }
    return true;
  };
  return ending;
}

/// The nodes and the processes.
inline void describe(MemorySource& source, const Ending& ending) {
  for (int rank = 0; rank < kRanks; ++rank) {
    Node node{.node_id = node_of_rank(rank), .name = "node", .boot_id = "boot", .started_ns = kOriginNs};
    node.name += std::to_string(rank);
    node.ended_ns = kOriginNs + kRecordedNs;
    ending.node(rank, node);
    source.accept(node);
    Process process{.node_id = node.node_id, .pid = 10 + rank, .exe = "/opt/job/train"};
    process.rank = rank;
    ending.process(rank, process);
    source.accept(process);
  }
}

inline void fill(MemorySource& source, const Ending& ending) {
  describe(source, ending);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call = call_of(rank, step);
      if (ending.call(rank, step, call)) {
        source.accept(call);
      }
    }
  }
}

inline Report report_of(MemorySource& source) {
  const Result<ExplainResult> result = explain(source);
  EXPECT_TRUE(result.has_value());
  return result ? result->report : Report{};
}

inline Report report_of(const Ending& ending) {
  MemorySource source;
  fill(source, ending);
  return report_of(source);
}

inline std::string reported(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += finding.summary + "\n";
  }
  return text;
}

/// The number of evidence lines of this kind.
inline int64_t count_of_kind(const Finding& finding, std::string_view kind) {
  return std::ranges::count(finding.evidence, kind, &Evidence::kind);
}

/// The first evidence of this kind; a test failure and empty evidence if there is none.
inline Evidence evidence_of(const Finding& finding, std::string_view kind) {
  const auto found = std::ranges::find(finding.evidence, kind, &Evidence::kind);
  EXPECT_NE(found, finding.evidence.end()) << kind << " in: " << finding.summary;
  return found == finding.evidence.end() ? Evidence{} : *found;
}

/// The only finding.
inline Finding only(MemorySource& source) {
  const Report report = report_of(source);
  EXPECT_EQ(report.findings.size(), 1U) << reported(report);
  return report.findings.empty() ? Finding{} : report.findings[0];
}

/// Expects a finding of this cause that names this rank.
inline void expect_culprit(const Finding& finding, Cause cause, int32_t rank) {
  SCOPED_TRACE(finding.summary);
  EXPECT_EQ(finding.cause, cause);
  ASSERT_TRUE(finding.culprit.has_value());
  EXPECT_EQ(finding.culprit->rank, rank);
}

/// Expects a finding of this cause that names this link.
inline void expect_link(const Finding& finding, Cause cause, int32_t src_rank, int32_t dst_rank) {
  SCOPED_TRACE(finding.summary);
  EXPECT_EQ(finding.cause, cause);
  ASSERT_TRUE(finding.link.has_value());
  EXPECT_EQ(finding.link->src_rank, src_rank);
  EXPECT_EQ(finding.link->dst_rank, dst_rank);
}

/// Expects one critical finding, with this cause and culprit.
inline void expect(const Report& report, Cause cause, std::optional<int32_t> rank) {
  SCOPED_TRACE(reported(report));
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].cause, cause);
  EXPECT_EQ(report.findings[0].culprit ? report.findings[0].culprit->rank : std::nullopt, rank);
  EXPECT_EQ(report.findings[0].severity, Severity::kCritical);
  EXPECT_FALSE(report.findings[0].remedy.empty());
}

inline void exit_at(Process& process, int64_t time_ns, int32_t signal = 15) {
  process.exit_ns = time_ns;
  process.exit_signal = signal;
}
inline void fail_at(Process& process, int64_t time_ns) {
  process.exit_ns = time_ns;
  process.exit_code = 1;
}

}  // namespace stalltrace::analysis::small_job
