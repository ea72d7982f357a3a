// SPDX-License-Identifier: Apache-2.0
// Recordings of some nodes alone: the fault, or that it is not seen. Never another rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/explain.h"
#include "analysis/testing/golden_text.h"
#include "analysis/testing/slow_job.h"
#include "analysis/testing/subset.h"
#include "analysis/testing/synthetic_cluster.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

using small_job::kRanks;
using small_job::nodes_of;
using small_job::ranks_in;
using small_job::reported;

std::vector<int> missing_of(unsigned subset) {
  const std::set<int> missing = ranks_in(~subset);
  return {missing.begin(), missing.end()};
}

/// Loss is the matter of the link's two ends.
bool concerns(FaultKind kind, int rank, std::optional<int32_t> named) {
  return !named || *named == rank || (kind == FaultKind::kPacketLoss && *named == (rank + 1) % kRanks);
}

TEST(PartialRecordings, NoFaultIsBlamedOnAnotherRank) {
  int named = 0;
  for (const FaultKind kind :
       {FaultKind::kPacketLoss, FaultKind::kLateRank, FaultKind::kCpuContention, FaultKind::kProcessStopped}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (unsigned subset = 1; subset < (1U << kRanks) - 1; ++subset) {
        JobOptions options{.seed = 30 + subset};
        options.faults = {{.kind = kind, .rank = rank}};
        options.unrecorded = missing_of(subset);
        SyntheticJob job(options);
        const Report report = small_job::report_of(job.source());
        SCOPED_TRACE(fmt::format("fault {} at rank {}, ranks recorded {:04b} (rank 0 last)\n{}", static_cast<int>(kind),
                                 rank, subset, reported(report)));
        EXPECT_FALSE(report.unrecorded_ranks.empty());
        EXPECT_NE(report.health(), std::optional(true));
        for (const Finding& finding : report.findings) {
          const std::optional<int32_t> culprit = finding.culprit ? finding.culprit->rank : std::nullopt;
          EXPECT_TRUE(concerns(kind, rank, culprit)) << to_text(finding.cause);
          if (finding.link) {
            EXPECT_TRUE(concerns(kind, rank, finding.link->src_rank) && concerns(kind, rank, finding.link->dst_rank));
          }
          named += finding.cause == Cause::kUnknown ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(named, 60) << "what the recorded nodes show is still found";
}

/// 2 % loss on the way from rank 1 to rank 2, in rank 2's firewall.
MemorySource firewalled_job(const std::set<int>& ranks) {
  MemorySource whole = small_job::lossy_job();
  small_job::drop(whole, true, "NETFILTER_DROP");
  return recorded_on(nodes_of(ranks), whole);
}

TEST(PartialRecordings, WhatAHostDroppedItselfIsReportedWithoutTheSender) {
  for (const std::set<int>& ranks : {std::set{2}, std::set{0, 2}, std::set{0, 2, 3}}) {
    MemorySource source = firewalled_job(ranks);
    const Finding finding = small_job::only(source);
    EXPECT_EQ(finding.cause, Cause::kUnknown);
    EXPECT_FALSE(finding.culprit.has_value());
    EXPECT_EQ(small_job::evidence_of(finding, "packet_drop").count, small_job::kSteps - small_job::kSlowFrom);
    golden::expect_text(finding.remedy);
    if (ranks.size() == 2) {
      expect_golden_text("unknown: the sender was not recorded", finding);
    }
  }
}

TEST(PartialRecordings, BystandersAreNotBlamed) {
  for (const std::set<int>& ranks : {std::set{0, 3}, std::set{0}, std::set{3}}) {
    MemorySource source = firewalled_job(ranks);
    const Finding finding = small_job::only(source);
    EXPECT_EQ(finding.cause, Cause::kUnknown);
    EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
    EXPECT_EQ(small_job::count_of_kind(finding, "packet_drop"), 0);
    golden::expect_text(finding.summary);
    golden::expect_text(finding.remedy);
  }
}

/// Endings that hang, each with the rank that is to blame; -1: none is.
std::vector<std::pair<small_job::Ending, int>> hangs() {
  using namespace small_job;
  Ending dead = hang();
  dead.process = [](int rank, Process& process) {
    if (rank == 2) {
      exit_at(process, kLastArrivalNs + 10 * kNsPerMs, 9);
    }
  };
  Ending mismatch = hang();
  mismatch.call = [](int rank, int64_t step, Collective& call) {
    if (step == kSteps - 1) {
      leave_open(call);
      call.bytes /= rank == 1 ? 2 : 1;
    }
    return true;
  };
  return {{hang({2}), 2}, {hang({1, 2, 3}), 0}, {dead, 2}, {mismatch, 1}, {hang(), -1}};
}

TEST(PartialRecordings, NoHangIsBlamedOnAnotherRank) {
  int named = 0;
  int number = 0;
  for (const auto& [ending, to_blame] : hangs()) {
    MemorySource whole;
    small_job::fill(whole, ending);
    for (unsigned subset = 1; subset < (1U << kRanks) - 1; ++subset) {
      MemorySource source = recorded_on(nodes_of(ranks_in(subset)), whole);
      const Report report = small_job::report_of(source);
      SCOPED_TRACE(fmt::format("hang {}, ranks recorded {:04b} (rank 0 last)\n{}", number, subset, reported(report)));
      EXPECT_NE(report.health(), std::optional(true));
      for (const Finding& finding : report.findings) {
        if (finding.culprit) {
          EXPECT_EQ(finding.culprit->rank, to_blame) << to_text(finding.cause);
          ++named;
        }
      }
    }
    ++number;
  }
  EXPECT_GT(named, 15) << "what the recorded nodes show is still found";
}

TEST(PartialRecordings, AWaitAsLongAsEarlierOnesMayEnd) {
  using namespace small_job;
  constexpr int64_t kLateNs = 20 * kNsPerSecond;
  for (const int late : {1, 3}) {  // that long once, and the last call has been open for twice as long
    Ending ending;
    ending.call = [=](int rank, int64_t step, Collective& call) {
      call.timestamp_ns += step > kSteps / 2 || (step == kSteps / 2 && rank == late) ? kLateNs : 0;
      *call.duration_ns += step == kSteps / 2 && rank != late ? kLateNs : 0;
      if (step == kSteps - 1) {
        leave_open(call);
      }
      return true;
    };
    ending.node = [](int, Node& node) { node.ended_ns = kLastArrivalNs + 3 * kLateNs; };
    MemorySource whole;
    fill(whole, ending);
    MemorySource half = recorded_on(nodes_of({0, 1}), whole);
    const Report report = report_of(half);
    const auto open = std::ranges::find(report.findings, Cause::kUnknown, &Finding::cause);
    ASSERT_NE(open, report.findings.end()) << late << ": " << reported(report);
    EXPECT_EQ(open->severity, Severity::kWaiting) << late << ": " << open->summary;
  }
}

/// Rank 3, which was not recorded, pauses for 5 s in every step of which the number is a multiple of `every`.
Finding paused_elsewhere(int64_t every) {
  using namespace small_job;
  constexpr int64_t kPauseNs = 5 * kNsPerSecond;
  Ending ending;
  ending.call = [=](int rank, int64_t step, Collective& call) {
    const bool pauses = step > 0 && step % every == 0;
    call.timestamp_ns += (std::max<int64_t>(0, step - 1) / every + (pauses && rank == 3 ? 1 : 0)) * kPauseNs;
    *call.duration_ns += pauses && rank != 3 ? kPauseNs : 0;
    return true;
  };
  MemorySource whole;
  fill(whole, ending);
  MemorySource half = recorded_on(nodes_of({0, 1}), whole);
  return only(half);
}

TEST(PartialRecordings, FewLongPausesOfARankThatWasNotRecordedAreNoProofOfAFault) {
  const Finding few = paused_elsewhere(30);
  EXPECT_EQ(few.cause, Cause::kUnknown);
  EXPECT_FALSE(few.culprit.has_value()) << few.summary;
  EXPECT_EQ(few.severity, Severity::kWaiting) << few.summary;
  const Finding many = paused_elsewhere(8);
  EXPECT_EQ(many.cause, Cause::kUnknown);
  EXPECT_EQ(many.severity, Severity::kHigh) << many.summary;
}

/// Two communicators of two ranks each, made before tracing began. On the one of ranks 0 and 1, `late` stays away from
/// the last call; -1: it ends.
MemorySource attached_late(int late) {
  using namespace small_job;
  Ending ending;
  ending.call = [late](int rank, int64_t step, Collective& call) {
    call.comm_id_hash = 0;
    call.rank.reset();
    call.nranks.reset();
    call.bytes *= rank < 2 ? 1 : 2;
    if (step == kSteps - 1 && rank < 2 && late >= 0) {
      leave_open(call);
      return rank != late;
    }
    return true;
  };
  ending.process = [](int rank, Process& process) {
    process.rank_source = RankSource::kEnvironment;
    process.world_size = kRanks;
    process.job_id = "job";
    process.start_ns = kOriginNs - 60 * kNsPerSecond + rank * kNsPerMs;
  };
  MemorySource source;
  fill(source, ending);
  return source;
}

TEST(AttachedLate, ACommunicatorOfAFewRanksIsJudgedByTheJobThatIsRecorded) {
  for (const int late : {0, 1}) {
    MemorySource source = attached_late(late);
    const Report report = small_job::report_of(source);
    EXPECT_TRUE(report.unrecorded_ranks.empty()) << report.unrecorded_ranks;
    small_job::expect(report, Cause::kMissingCollective, late);
  }
  MemorySource healthy = attached_late(-1);
  EXPECT_EQ(small_job::report_of(healthy).health(), std::optional(true));
}

TEST(AttachedLate, HalfAJobIsNotHealthy) {
  MemorySource whole = attached_late(-1);
  MemorySource half = recorded_on(nodes_of({0, 1}), whole);
  const Report report = small_job::report_of(half);
  EXPECT_EQ(report.health(), std::nullopt) << reported(report);
  golden::expect_text(report.unrecorded_ranks);
  EXPECT_EQ(std::ranges::count(report.notes, report.unrecorded_ranks), 1);
}

TEST(AttachedLate, OfTheRecordedRanksNoneIsBlamedInHalfAJob) {
  MemorySource whole = attached_late(1);
  MemorySource half = recorded_on(nodes_of({0, 1}), whole);
  const Finding finding = small_job::only(half);
  EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
}

/// Rank 1 has called nothing on the second communicator since the agents came: the other that is inside may wait for
/// it.
TEST(AttachedLate, ARankThatHasNotCalledYetOnACommunicatorIsMissingThere) {
  MemorySource source = attached_late(-1);
  for (const int rank : {0, 2, 3}) {
    Collective call = small_job::call_of(rank, small_job::kSteps - 1, 0);
    call.event_id = make_event_id(call.node_id, 4'000'000);
    call.timestamp_ns += 10 * kNsPerMs;
    call.comm_ptr = 0xb;
    call.bytes = 64;
    call.rank.reset();
    call.nranks.reset();
    small_job::leave_open(call);
    source.accept(call);
  }
  const Finding finding = small_job::only(source);
  EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
  golden::expect_text(finding.summary);
}

/// A rank that was started and has called nothing yet is recorded, though whom the others wait for is open.
TEST(AttachedLate, ARankWithoutCallsIsNotMissing) {
  MemorySource whole = attached_late(-1);
  MemorySource source = recorded_on(nodes_of({0, 1, 2}), whole);
  Node node{.node_id = small_job::node_of_rank(3), .name = "node3", .boot_id = "boot"};
  source.accept(node);
  Process process{.node_id = node.node_id, .pid = 13, .exe = "/opt/job/train"};
  process.rank = 3;
  process.rank_source = RankSource::kEnvironment;
  process.world_size = small_job::kRanks;
  process.job_id = "job";
  process.start_ns = small_job::kOriginNs - 60 * kNsPerSecond;
  source.accept(process);
  const Report report = small_job::report_of(source);
  EXPECT_TRUE(report.unrecorded_ranks.empty()) << report.unrecorded_ranks;
  EXPECT_EQ(report.health(), std::optional(true)) << reported(report);
}

TEST(AttachedLate, CallsThatCouldNotBeMatchedAreNotCalledUnrecorded) {
  using namespace small_job;
  MemorySource source = attached_late(-1);
  for (int64_t step = 0; step < kSteps; ++step) {  // of rank 0 with ranks whose calls are lost
    Collective call = call_of(0, step, 0);
    call.event_id = make_event_id(call.node_id, static_cast<uint64_t>(3'000'000 + step));
    call.timestamp_ns += 10 * kNsPerMs;
    call.comm_ptr = 0xa;
    call.bytes = 64;
    call.rank.reset();
    call.nranks.reset();
    if (step == kSteps - 1) {
      leave_open(call);
    }
    source.accept(call);
  }
  const Finding finding = only(source);
  EXPECT_EQ(finding.cause, Cause::kUnknown);
  EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
  golden::expect_text(finding.summary);
  golden::expect_text(finding.remedy);
}

/// What each rank did with CUDA graphs, from the middle of the job on.
void use_graphs(MemorySource& source, int64_t captured, int64_t launches, int64_t start_ns = 0) {
  for (int rank = 0; rank < kRanks; ++rank) {
    GraphUse use{.node_id = small_job::node_of_rank(rank), .pid = 10 + rank, .start_ns = start_ns};
    use.captured = captured;
    use.launches = launches;
    if (launches > 0) {
      use.first_launch_ns = small_job::begin_of(small_job::kSteps / 2);
      use.last_launch_ns = small_job::begin_of(small_job::kSteps);
    }
    source.accept(use);
  }
}

/// The calls of one step are captured.
small_job::Ending captured_in(int64_t captured_step) {
  small_job::Ending ending;
  ending.call = [captured_step](int, int64_t step, Collective& call) {
    if (step == captured_step) {
      call.duration_ns.reset();
      call.launch_ns = kNsPerMs;
      call.completion = Completion::kCaptured;
    }
    return true;
  };
  return ending;
}

TEST(Graphs, CapturedCallsAreNotJudgedAndWhatRunsThemIsNotSeen) {
  for (const int64_t step : {small_job::kSteps / 2, small_job::kSteps - 1}) {
    MemorySource source;
    small_job::fill(source, captured_in(step));
    EXPECT_EQ(small_job::report_of(source).health(), std::optional(true)) << "no graph was launched";
    use_graphs(source, 1, 0);
    EXPECT_EQ(small_job::report_of(source).health(), std::optional(true)) << "no graph was launched";
    use_graphs(source, 1, 300);
    const Report report = small_job::report_of(source);
    EXPECT_EQ(report.health(), std::nullopt) << reported(report);
    EXPECT_EQ(report.collectives, kRanks * (small_job::kSteps - 1));
    EXPECT_EQ(std::ranges::count(report.notes, report.unseen_graphs), 1);
    if (step == small_job::kSteps - 1) {
      golden::expect_text(report.unseen_graphs);
    }
  }
}

TEST(Graphs, OnesThatWereCapturedBeforeTracingMayHoldCollectives) {
  MemorySource source;
  small_job::fill(source, {});
  use_graphs(source, 0, 300);
  const Report report = small_job::report_of(source);
  EXPECT_EQ(report.health(), std::nullopt);
  golden::expect_text(report.unseen_graphs);

  MemorySource traced_from_its_start;
  small_job::Ending ending;
  ending.process = [](int, Process& process) { process.start_ns = small_job::kOriginNs; };
  small_job::fill(traced_from_its_start, ending);
  use_graphs(traced_from_its_start, 0, 300, small_job::kOriginNs);
  EXPECT_EQ(small_job::report_of(traced_from_its_start).health(), std::optional(true)) << "they hold none";
}

TEST(Graphs, WithAProfilerFileTheyAreSeen) {
  for (const bool by_graph : {false, true}) {
    MemorySource source;
    small_job::Ending ending;
    std::vector<Collective> launched;
    ending.call = [&](int, int64_t step, Collective& call) {
      call.completion = Completion::kProfiler;
      if (step == small_job::kSteps - 1) {
        Collective other = call;
        other.event_id += 2'000'000;
        other.comm_ptr = kGraphCommunicator | 1;
        other.comm_id_hash = 0x6a;
        other.seq = 0;
        launched.push_back(other);
      }
      return true;
    };
    small_job::fill(source, ending);
    for (const Collective& call : launched) {
      if (by_graph) {
        source.accept(call);
      }
    }
    use_graphs(source, 1, 300);
    const Report report = small_job::report_of(source);
    EXPECT_EQ(report.health(), by_graph ? std::optional(true) : std::nullopt) << report.unseen_graphs;
  }
}

/// One agent did not see that a call is captured: nothing reports its end there.
TEST(Graphs, ACallThatAnyRankCapturedIsNoInstance) {
  MemorySource source;
  small_job::Ending ending;
  ending.call = [](int rank, int64_t step, Collective& call) {
    if (step == small_job::kSteps - 1) {
      call.duration_ns.reset();
      call.launch_ns = kNsPerMs;
      call.completion = rank == 1 ? Completion::kOpen : Completion::kCaptured;
    }
    return true;
  };
  small_job::fill(source, ending);
  const Report report = small_job::report_of(source);
  EXPECT_TRUE(report.findings.empty()) << reported(report);
}

/// A captured call that the rank made counts as made.
TEST(Graphs, OnlyWhoDidNotCaptureEitherIsAbsent) {
  MemorySource source;
  small_job::Ending ending = small_job::hang({2});
  const auto hang = ending.call;
  ending.call = [hang](int rank, int64_t step, Collective& call) {
    const bool made = hang ? hang(rank, step, call) : true;
    if (made && step == small_job::kSteps - 2) {
      call.duration_ns.reset();
      call.launch_ns = kNsPerMs;
      call.completion = Completion::kCaptured;
    }
    return made;
  };
  small_job::fill(source, ending);
  const Report report = small_job::report_of(source);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  ASSERT_TRUE(report.findings[0].culprit.has_value());
  EXPECT_EQ(report.findings[0].culprit->rank, 2);
}

TEST(Graphs, OnlyThoseOfTheJudgedTimeCount) {
  MemorySource source;
  small_job::fill(source, {});
  use_graphs(source, 1, 300);
  ExplainOptions options;
  options.window.to = TimePoint{small_job::begin_of(small_job::kSteps / 4)};
  const Result<ExplainResult> result = explain(source, options);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->report.health(), std::optional(true)) << result->report.unseen_graphs;
}

TEST(Graphs, FindingsAboutTheCallsBesideThemStay) {
  MemorySource source;
  small_job::fill(source, small_job::hang({2}));
  use_graphs(source, 1, 300);
  const Report report = small_job::report_of(source);
  ASSERT_EQ(report.findings.size(), 1U) << reported(report);
  ASSERT_TRUE(report.findings[0].culprit.has_value());
  EXPECT_EQ(report.findings[0].culprit->rank, 2);
  EXPECT_FALSE(report.unseen_graphs.empty());
  EXPECT_EQ(report.health(), std::optional(false));
}

}  // namespace
}  // namespace stalltrace::analysis
