// SPDX-License-Identifier: Apache-2.0
// A fault that lasts from the first call to the last, beside another run of the job, which was right.
#include "analysis/stalls/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "analysis/explain.h"
#include "analysis/profiles/job_view.h"
#include "analysis/testing/small_job.h"
#include "lab/simulation/job.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using namespace small_job;
using simulation::FaultKind;

constexpr int64_t kRightNs = 5 * kNsPerMs;
constexpr int64_t kLongNs = 20 * kNsPerMs;
constexpr CommHash kOtherHash = 4711;

Reference reference_of(MemorySource& source) {
  const auto job = JobView::load(source);
  EXPECT_TRUE(job.has_value());
  return job ? Reference::learn((*job)->timeline(), (*job)->cluster()) : Reference();
}

Report report_beside(MemorySource& source, const Reference* reference) {
  const Result<ExplainResult> result = explain(source, {.reference = reference});
  EXPECT_TRUE(result.has_value());
  return result ? result->report : Report{};
}

/// All calls of the job, on a communicator of this name, take `taken_ns` and return at their end, and `change` is made
/// to each.
MemorySource job_of(int64_t taken_ns, CommHash hash = kHash, const std::function<void(Collective&)>& change = {}) {
  MemorySource source;
  Ending ending;
  ending.call = [&](int rank, int64_t step, Collective& call) {
    call = call_of(rank, step, hash);
    call.duration_ns = taken_ns;
    call.completion = Completion::kCall;
    if (change) {
      change(call);
    }
    return call.rank < call.nranks;
  };
  fill(source, ending);
  return source;
}

/// What a job whose calls all take long is found to be beside this one.
Report report_beside(MemorySource right) {
  const Reference reference = reference_of(right);
  MemorySource slow = job_of(kLongNs);
  return report_beside(slow, &reference);
}

TEST(Reference, ACommunicatorThatIsSlowFromItsFirstCallOnIsFound) {
  MemorySource slow = job_of(kLongNs);
  EXPECT_TRUE(report_beside(slow, nullptr).findings.empty());
  const Report report = report_beside(job_of(kRightNs, kOtherHash));
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_EQ(finding.collectives_affected, kSteps - kWarmUpInstances);
  const double cost_ms = static_cast<double>((kSteps - kWarmUpInstances) * (kLongNs - kRightNs)) / 1e6;
  EXPECT_NEAR(finding.stall_ms, cost_ms, 0.05 * cost_ms);
  ASSERT_TRUE(finding.like.has_value());
  EXPECT_NEAR(static_cast<double>(finding.like->usual_ns), static_cast<double>(kRightNs), 1e5);
  EXPECT_NEAR(static_cast<double>(finding.like->took_ns), static_cast<double>(kLongNs), 1e5);
  ASSERT_TRUE(report.like.has_value());
  EXPECT_EQ(report.like->comparable, kSteps - kWarmUpInstances);
  EXPECT_EQ(report.like->not_comparable, 0);
  EXPECT_EQ(report.like->ranks, kRanks);
}

TEST(Reference, AHealthyRunBesideAnotherGivesNothing) {
  MemorySource right = job_of(kRightNs, kOtherHash);
  const Reference reference = reference_of(right);
  MemorySource healthy = job_of(kRightNs + kNsPerMs);
  const Report report = report_beside(healthy, &reference);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
  EXPECT_EQ(report.like->comparable, kSteps - kWarmUpInstances);
  EXPECT_EQ(report.health(), std::optional(true));
}

/// The note on the run given by --like, which says why some instances have no comparable ones.
std::string note_on(const Report& report) {
  const auto note = std::ranges::find_if(report.notes, [](const std::string& one) { return one.contains("--like"); });
  return note == report.notes.end() ? "" : *note;
}

/// Both steps end at the same time. In one run the CPUs launch 40 ms ahead of their devices.
TEST(Reference, TimeInTheQueuesOfDevicesIsNotCompared) {
  const auto launched = [](int64_t ahead_ns, CommHash hash) {
    return job_of(kRightNs + ahead_ns, hash, [=](Collective& call) {
      call.completion = Completion::kSync;
      call.timestamp_ns -= ahead_ns;
    });
  };
  MemorySource right = launched(0, kOtherHash);
  const Reference reference = reference_of(right);
  MemorySource ahead = launched(40 * kNsPerMs, kHash);
  const Report report = report_beside(ahead, &reference);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
  EXPECT_EQ(report.like->comparable, 0);
  EXPECT_EQ(report.health(), std::nullopt);
  golden::expect_text(note_on(report));
}

/// The counts are those of the range. Of 7 instances with a payload of their own none is usual, and the note names the
/// class that most of the others are of.
TEST(Reference, CountsAreOfWhatIsJudged) {
  const auto of_two_sizes = [](CommHash hash) {
    return job_of(kRightNs, hash, [](Collective& call) {
      const int64_t step = call.seq.value_or(0);
      call.bytes *= step >= 50 && step < 57 ? 8 : step >= 90 ? 4 : 1;
    });
  };
  MemorySource right = of_two_sizes(kOtherHash);
  const Reference reference = reference_of(right);
  MemorySource own = of_two_sizes(kHash);
  const Report whole = report_beside(own, &reference);
  EXPECT_EQ(whole.like->comparable, kSteps - kWarmUpInstances - 7);
  EXPECT_EQ(whole.like->not_comparable, 7);
  golden::expect_text(note_on(whole));
  const TimeWindow window{.from = TimePoint{begin_of(50), false}, .to = TimePoint{begin_of(60), false}};
  const Result<ExplainResult> part = explain(own, {.window = window, .reference = &reference});
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->report.like->comparable, 3);
  EXPECT_EQ(part->report.like->not_comparable, 7);
}

/// What differs between the runs besides the time.
TEST(Reference, OnlyComparableInstancesAreCompared) {
  const auto expect_none = [](const char* what, const std::function<void(Collective&)>& change) {
    const Report report = report_beside(job_of(kRightNs, kOtherHash, change));
    SCOPED_TRACE(std::string(what) + "\n" + reported(report));
    EXPECT_TRUE(report.findings.empty());
    ASSERT_TRUE(report.like.has_value());
    EXPECT_EQ(report.like->comparable, 0);
    EXPECT_EQ(report.like->not_comparable, kSteps - kWarmUpInstances);
    EXPECT_EQ(report.health(), std::nullopt);
  };
  expect_none("payload", [](Collective& call) { call.bytes *= 2; });
  expect_none("operation", [](Collective& call) { call.op = Operation::kBroadcast; });
  expect_none("ranks", [](Collective& call) { call.nranks = kRanks - 1; });
  expect_none("how ends are known", [](Collective& call) { call.completion = Completion::kProfiler; });
}

/// It may have gone over that path here, too.
TEST(Reference, TheSlowestCommunicatorOfTheRightRunIsUsual) {
  MemorySource right = job_of(kRightNs, kOtherHash);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      Collective call = call_of(rank, step);  // its id is another one
      call.timestamp_ns += kStepNs / 2;
      call.duration_ns = kLongNs;
      call.completion = Completion::kCall;
      right.accept(call);
    }
  }
  EXPECT_TRUE(report_beside(std::move(right)).findings.empty());
}

/// Single calls are long in healthy runs: a class as a whole has to be slower.
TEST(Reference, WhatMostInstancesTakeDecides) {
  MemorySource right = job_of(kRightNs, kOtherHash);
  const Reference reference = reference_of(right);
  const auto stalls_where = [&](int64_t of_four) {
    MemorySource own = job_of(kRightNs, kHash, [=](Collective& call) {
      call.duration_ns = kRightNs + (call.seq.value_or(0) % 4 < of_four ? 4 * kNsPerMs : 0);
    });
    const Result<ExplainResult> result = explain(own, {.reference = &reference});
    return result ? result->decisions.size() : 0;
  };
  EXPECT_EQ(stalls_where(2), 0U);
  EXPECT_GT(stalls_where(4), 0U);
}

Reference reference_of(const simulation::JobOptions& options) {
  MemorySource source;
  simulation::Job(options).record_all(source);
  return reference_of(source);
}

Report report_beside(const simulation::JobOptions& options, const Reference* reference) {
  MemorySource source;
  simulation::Job(options).record_all(source);
  return report_beside(source, reference);
}

/// With the plugin each transfer has its own times, without it only steps have.
TEST(Reference, ASlowLinkOfTheWholeRunIsFound) {
  for (const bool plugin : {true, false}) {
    SCOPED_TRACE(plugin);
    simulation::JobOptions options{.nodes = 4, .ranks_per_node = 2, .steps = 40, .plugin = plugin};
    const Reference reference = reference_of(options);
    options.seed = 7;
    const Report healthy = report_beside(options, &reference);
    EXPECT_TRUE(healthy.findings.empty()) << reported(healthy);
    options.faults = {{.kind = FaultKind::kSlowLink, .rank = 5, .factor = 4}};
    EXPECT_TRUE(report_beside(options, nullptr).findings.empty());
    const Report report = report_beside(options, &reference);
    SCOPED_TRACE(reported(report));
    ASSERT_FALSE(report.findings.empty());
    for (const Finding& finding : report.findings) {
      EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
      EXPECT_TRUE(!finding.link || finding.link->src_rank == 5) << finding.summary;
    }
    if (plugin) {  // what is seen of steps includes times in which the link is idle
      expect_link(report.findings[0], Cause::kSlowLink, 5, 6);
    }
    ASSERT_TRUE(report.findings[0].like.has_value());
    EXPECT_GT(report.findings[0].like->took_ns, report.findings[0].like->usual_ns * 3 / 2);
  }
}

/// What makes the steps slow hides that a rank launches behind the others, which costs nothing.
TEST(Reference, ARankThatIsBehindIsNotWhyALinkIsSlow) {
  simulation::JobOptions options{.nodes = 4, .ranks_per_node = 2, .steps = 40};
  const Reference reference = reference_of(options);
  options.seed = 7;
  options.faults = {{.kind = FaultKind::kSlowLink, .rank = 5, .factor = 4},
                    {.kind = FaultKind::kLateRank, .rank = 3, .ms = 25, .unit = options.units - 1}};
  const Report report = report_beside(options, &reference);
  SCOPED_TRACE(reported(report));
  ASSERT_FALSE(report.findings.empty());
  for (const Finding& finding : report.findings) {
    EXPECT_NE(finding.cause, Cause::kLateRank);
    EXPECT_FALSE(finding.culprit.has_value());
  }
}

/// Ranks 0 and 1 on one node, 2 and 3 on another, in a ring. The links between the nodes that `is_busy` names are busy
/// all the time, all others hardly. From step `slow_from` on the calls take `taken_ns`, before it 50 ms.
MemorySource job_on_two_nodes(int64_t taken_ns, CommHash hash, const std::function<bool(int rank)>& is_busy,
                              int64_t slow_from = 0) {
  constexpr int64_t kSampledNs = 50 * kNsPerMs;
  MemorySource source;
  for (const NodeId id : {NodeId{1}, NodeId{2}}) {
    source.accept(Node{.node_id = id,
                       .name = "node" + std::to_string(id),
                       .boot_id = "boot",
                       .started_ns = kOriginNs,
                       .ended_ns = kOriginNs + kRecordedNs});
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto node = static_cast<NodeId>(1 + rank / 2);
    Process process{.node_id = node, .pid = 10 + rank, .exe = "/opt/job/train"};
    process.rank = rank;
    source.accept(process);
    const auto address = [](int of) { return "10.77.0." + std::to_string(of % kRanks + 1); };
    Connection link{.node_id = node, .cookie = 100 + static_cast<uint64_t>(rank), .pid = 10 + rank, .family = 2};
    link.source = {address(rank), 50'000};
    link.destination = {address(rank + 1), 60'000};
    link.opened_ns = kOriginNs;
    link.thread_name = "NCCL Progress 0";
    source.accept(link);
    for (int64_t step = 0; step < kSteps; ++step) {
      Collective call = call_of(rank, step, hash);
      call.node_id = node;
      call.event_id = make_event_id(node, static_cast<uint64_t>(step * kRanks + rank + 1));
      call.timestamp_ns = kOriginNs + step * kNsPerSecond + rank * 100 * kNsPerUs;
      call.duration_ns = step < slow_from ? 50 * kNsPerMs : taken_ns;
      call.completion = Completion::kCall;
      source.accept(call);
    }
    for (int64_t at = 0; at < kSteps * kNsPerSecond / kSampledNs; ++at) {
      TcpSample sample{.node_id = node, .timestamp_ns = kOriginNs + at * kSampledNs, .cookie = link.cookie};
      sample.pid = link.pid;
      sample.mss = 1448;
      sample.bytes_acked = static_cast<uint64_t>(at + 1) * 100'000;
      sample.busy_ns = static_cast<uint64_t>(at * (is_busy(rank) ? kSampledNs : 2 * kNsPerMs));
      source.accept(sample);
    }
  }
  return source;
}

/// Links within a node are faster in the right run, too: only one that is slower than another one between nodes is
/// named.
TEST(Reference, ALinkStandsOutBesideThoseOfItsKind) {
  MemorySource right = job_on_two_nodes(50 * kNsPerMs, kOtherHash, [](int) { return false; });
  const Reference reference = reference_of(right);
  const auto found = [&](const std::function<bool(int)>& is_busy) {
    MemorySource slow = job_on_two_nodes(400 * kNsPerMs, kHash, is_busy);
    const Report report = report_beside(slow, &reference);
    EXPECT_EQ(report.findings.size(), 1U) << reported(report);
    return report.findings.empty() ? Finding{} : report.findings[0];
  };
  EXPECT_EQ(found([](int rank) { return rank == 1 || rank == 3; }).cause, Cause::kUnknown);
  expect_link(found([](int rank) { return rank == 1; }), Cause::kSlowLink, 1, 2);
}

/// The same of a recording with its own usual time: links within a node are no measure of those between nodes.
TEST(Reference, WithoutOneALinkStandsOutBesideThoseOfItsKindToo) {
  const auto found = [&](const std::function<bool(int)>& is_busy) {
    MemorySource slow = job_on_two_nodes(400 * kNsPerMs, kHash, is_busy, kSteps / 2);
    const Report report = report_beside(slow, nullptr);
    EXPECT_EQ(report.findings.size(), 1U) << reported(report);
    return report.findings.empty() ? Finding{} : report.findings[0];
  };
  EXPECT_EQ(found([](int rank) { return rank == 1 || rank == 3; }).cause, Cause::kUnknown);
  expect_link(found([](int rank) { return rank == 1; }), Cause::kSlowLink, 1, 2);
}

/// Without the plugin it makes all steps equally long, and is as late as it usually is.
TEST(Reference, ARankThatIsLateInEveryStepIsFoundWithoutThePlugin) {
  simulation::JobOptions options{.nodes = 2, .ranks_per_node = 4, .steps = 40};
  const Reference reference = reference_of(options);
  options.seed = 7;
  options.faults = {{.kind = FaultKind::kLateRank, .rank = 5, .ms = 80}};
  EXPECT_TRUE(report_beside(options, nullptr).findings.empty());
  const Report report = report_beside(options, &reference);
  SCOPED_TRACE(reported(report));
  ASSERT_FALSE(report.findings.empty());
  expect_culprit(report.findings[0], Cause::kLateRank, 5);
  ASSERT_TRUE(report.findings[0].like.has_value());
}

}  // namespace
}  // namespace stalltrace::analysis
