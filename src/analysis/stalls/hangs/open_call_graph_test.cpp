// SPDX-License-Identifier: Apache-2.0
// Walks over open calls: their results, and their time limit if there are many paths.
#include "analysis/stalls/hangs/open_call_graph.h"

#include <gtest/gtest.h>

#include "analysis/testing/small_job.h"
#include "analysis/thresholds/hangs.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kBegunNs = small_job::kOriginNs;
constexpr int kWidth = 8;    // ranks per layer
constexpr int kLayers = 12;  // the ranks of each layer wait for all of the next, on a communicator of both: 8^10 paths

/// The n-th call of a rank on a communicator.
Collective call_of(int rank, CommHash comm, int64_t seq, int64_t time_ns, bool open) {
  Collective call{.event_id = make_event_id(1, comm * 1000 + static_cast<uint64_t>(rank * 4 + seq)), .node_id = 1};
  call.timestamp_ns = time_ns;
  call.completion = open ? Completion::kOpen : Completion::kSync;
  call.duration_ns = open ? std::nullopt : std::optional(kNsPerMs);
  call.seq = seq;
  call.rank = rank;
  call.comm_id_hash = call.comm_ptr = comm;
  call.pid = call.tid = 10 + rank;
  call.bytes = 1024;
  return call;
}

struct OpenCallJob {
  MemorySource source;
  std::optional<Cluster> cluster;
  std::optional<Timeline> timeline;

  void load() {
    source.accept(Node{.node_id = 1, .name = "node", .ended_ns = kBegunNs + 60 * kNsPerSecond});
    cluster = *Cluster::load(source);
    timeline = *Timeline::load(source, *cluster);
  }
  [[nodiscard]] uint32_t group_of(CommHash comm) const {
    uint32_t group = 0;
    while (timeline->groups()[group].hash != comm) {
      ++group;
    }
    return group;
  }
};

/// The order cycle of the first instance on a communicator.
HangRoot order_cycle_of(const OpenCallJob& job, CommHash comm) {
  const JobEnds ends;
  const OpenCallGraph graph(*job.timeline, *job.cluster, ends);
  Instance instance;
  EXPECT_TRUE(read_instance(*job.timeline, job.group_of(comm), 0, instance));
  return graph.order_cycle(instance);
}

TEST(OpenCallGraph, AWalkOverManyPathsVisitsEachOpenCallOnce) {
  OpenCallJob job;
  for (int layer = 0; layer + 1 < kLayers; ++layer) {
    const auto comm = static_cast<CommHash>(100 + layer);
    for (int rank = layer * kWidth; rank < (layer + 2) * kWidth; ++rank) {
      job.source.accept(call_of(rank, comm, 0, kBegunNs, false));
      if (rank < (layer + 1) * kWidth) {
        job.source.accept(call_of(rank, comm, 1, kBegunNs + kNsPerSecond, true));
      }
    }
  }
  job.load();
  const JobEnds ends;
  const OpenCallGraph graph(*job.timeline, *job.cluster, ends);
  const Interval window{kBegunNs + kNsPerSecond, kBegunNs + 60 * kNsPerSecond};
  Instance instance;
  ASSERT_TRUE(read_instance(*job.timeline, job.group_of(100), 1, instance));
  const HangRoot root = graph.absence_of(instance, window).root;
  EXPECT_EQ(root.kind, HangKind::kOutside);
  EXPECT_EQ(job.cluster->member(root.member).pid, 10 + (kLayers - 1) * kWidth);
  EXPECT_EQ(root.path.size(), static_cast<size_t>(kLayers - 2));  // the first rank of each layer
  for (size_t i = 0; i < root.path.size(); ++i) {
    EXPECT_EQ(job.cluster->member(root.path[i].member).pid, 10 + static_cast<int>(i + 1) * kWidth);
  }
}

TEST(OpenCallGraph, ASearchForOrderCyclesVisitsEachInstanceOnce) {
  constexpr int kManyRanks = 16;
  constexpr int kComms = 9;
  OpenCallJob job;
  for (int comm = 0; comm < kComms; ++comm) {  // half of its ranks have been inside the previous one for longer
    for (int rank = comm * kManyRanks; rank < (comm + 2) * kManyRanks; ++rank) {
      const int64_t time_ns = kBegunNs + comm * kNsPerSecond + rank * kNsPerUs;
      job.source.accept(call_of(rank, static_cast<CommHash>(100 + comm), 0, time_ns, true));
    }
  }
  job.load();
  EXPECT_EQ(order_cycle_of(job, 100 + kComms - 1).kind, HangKind::kNone);
}

/// Rank 0 launches on 101, then on 100; rank 1 is inside 100 and never enters 101. Each instance is held up by the
/// other.
TEST(OpenCallGraph, AnInstanceThatIsHeldUpByWhatItHoldsUpIsACycle) {
  OpenCallJob job;
  job.source.accept(call_of(0, 101, 0, kBegunNs, false));
  job.source.accept(call_of(1, 101, 0, kBegunNs, false));
  job.source.accept(call_of(0, 101, 1, kBegunNs + kNsPerSecond, true));
  job.source.accept(call_of(0, 100, 0, kBegunNs + 2 * kNsPerSecond, true));
  job.source.accept(call_of(1, 100, 0, kBegunNs + kNsPerSecond, true));
  job.load();
  const JobEnds ends;
  const OpenCallGraph graph(*job.timeline, *job.cluster, ends);
  const Interval window{kBegunNs + 2 * kNsPerSecond, kBegunNs + 60 * kNsPerSecond};
  Instance instance;
  ASSERT_TRUE(read_instance(*job.timeline, job.group_of(100), 0, instance));
  EXPECT_EQ(graph.behind(instance, window).kind, HangKind::kCycle);
  ASSERT_TRUE(read_instance(*job.timeline, job.group_of(101), 1, instance));
  EXPECT_EQ(graph.absence_of(instance, window).root.kind, HangKind::kCycle);
}

TEST(OpenCallGraph, ACircleOfManyCommunicatorsIsACycle) {
  constexpr int kComms = 20;
  OpenCallJob job;
  for (int rank = 0; rank < kComms; ++rank) {  // each is inside its own communicator's call, and then the next one's
    const auto next = static_cast<CommHash>(100 + (rank + 1) % kComms);
    job.source.accept(call_of(rank, static_cast<CommHash>(100 + rank), 0, kBegunNs, true));
    job.source.accept(call_of(rank, next, 0, kBegunNs + kNsPerSecond, true));
  }
  job.load();
  const HangRoot root = order_cycle_of(job, 100);
  EXPECT_EQ(root.kind, HangKind::kCycle);
  EXPECT_EQ(root.path.size(), static_cast<size_t>(kComms));
}

TEST(OpenCallGraph, RanksThatCalledInDifferentOrdersAreACycle) {
  OpenCallJob job;
  for (int rank = 0; rank < 4; ++rank) {
    const bool odd = rank == 3;
    job.source.accept(call_of(rank, 100, 0, kBegunNs + (odd ? kNsPerSecond : 0), true));
    job.source.accept(call_of(rank, 101, 0, kBegunNs + (odd ? 0 : kNsPerSecond), true));
  }
  job.load();
  const HangRoot root = order_cycle_of(job, 100);
  EXPECT_EQ(root.kind, HangKind::kCycle);
  EXPECT_EQ(root.path.size(), 2U);
}

/// A job on GPUs without the profiler plugin: calls return at once, and a synchronisation after the last call of a step
/// ends all of them. In the last step nothing has ended.
struct StepJob {
  static constexpr CommHash kComm = 100;
  static constexpr int kCalls = 8;           // in a step
  int steps = 6;                             // that ended
  std::vector<int> launched = {8, 3, 8, 8};  // in the last step, by rank
  int synchronises_after = kCalls;           // rank 1, in each step; and at the end
  bool returned = true;                      // rank 1's newest call
  int ended_by_network = 0;                  // of rank 1's first calls
  bool ends_apart = true;                    // of these
  OpenCallJob job = {};

  Collective call(int rank, int number, std::optional<int64_t> end_ns) const {
    const int step = number / kCalls;
    const int64_t begin_ns = kBegunNs + step * kNsPerSecond + number % kCalls * 20 * kNsPerMs + rank * kNsPerMs;
    Collective row = call_of(rank, kComm, number, begin_ns, !end_ns);
    row.event_id = make_event_id(1, static_cast<uint64_t>(1 + rank * 10'000 + number));
    row.nranks = static_cast<int32_t>(launched.size());
    row.launch_ns = 20 * kNsPerUs;
    if (end_ns) {
      row.duration_ns = *end_ns - begin_ns;
    }
    return row;
  }

  OpenCallGraph::Absence judge() {
    for (int rank = 0; rank < static_cast<int>(launched.size()); ++rank) {
      for (int number = 0; number < steps * kCalls; ++number) {
        const int64_t step_ns = kBegunNs + number / kCalls * kNsPerSecond;
        const bool early = rank == 1 && number % kCalls < synchronises_after && synchronises_after < kCalls;
        const int64_t early_ns = (synchronises_after - 1) * 20 * kNsPerMs + 15 * kNsPerMs;
        Collective row = call(rank, number, step_ns + (early ? early_ns : 500 * kNsPerMs));
        if (rank == 1 && number < ended_by_network) {
          row.completion = Completion::kNetwork;
          row.duration_ns = (ends_apart ? 5 : 45 - number * 20) * kNsPerMs;
        }
        job.source.accept(row);
      }
      const int mine = launched[static_cast<size_t>(rank)];
      for (int number = 0; number < mine; ++number) {
        Collective row = call(rank, steps * kCalls + number, std::nullopt);
        if (rank == 1 && number + 1 == mine && !returned) {
          row.launch_ns.reset();
        }
        job.source.accept(row);
      }
    }
    job.load();
    const JobEnds ends;
    const OpenCallGraph graph(*job.timeline, *job.cluster, ends);
    const int64_t lacking = steps * kCalls + *std::ranges::min_element(launched);
    Instance instance;
    EXPECT_TRUE(read_instance(*job.timeline, job.group_of(kComm), lacking, instance));
    EXPECT_FALSE(instance.absent.empty());
    return graph.absence_of(instance, {instance.last_arrival_ns, instance.last_arrival_ns + 40 * kNsPerSecond});
  }
};

TEST(OpenCallGraph, ARankThatStoppedInTheMiddleOfAStepIsOutside) {
  StepJob steps;
  const OpenCallGraph::Absence absence = steps.judge();
  ASSERT_EQ(absence.root.kind, HangKind::kOutside);
  EXPECT_EQ(steps.job.cluster->member(absence.root.member).pid, 11);
  EXPECT_TRUE(absence.root.path.empty());
  EXPECT_EQ(absence.outside, std::vector<MemberIndex>{absence.root.member});
}

/// It may wait there for the calls that it has launched, as the others do at the end of the step.
TEST(OpenCallGraph, ARankThatUsuallySynchronisesThereIsNotOutside) {
  StepJob steps{.synchronises_after = 3};
  EXPECT_EQ(steps.judge().root.kind, HangKind::kTransfer);
}

TEST(OpenCallGraph, OfTwoRanksThatStoppedTogetherNoneIsOutside) {
  StepJob steps{.launched = {8, 3, 3, 8, 8}};
  EXPECT_EQ(steps.judge().root.kind, HangKind::kTransfer);
}

/// CPUs that wait for room in the queues of their devices stop in the middle of a step as well, each at its own call.
TEST(OpenCallGraph, ARankThatIsALittleBehindOthersInTheMiddleOfAStepIsNotOutside) {
  StepJob steps{.launched = {4, 3, 5, 4}};
  EXPECT_EQ(steps.judge().root.kind, HangKind::kTransfer);
}

TEST(OpenCallGraph, ARankWhoseNewestCallHasNotReturnedIsInsideOfIt) {
  StepJob steps{.returned = false};
  EXPECT_EQ(steps.judge().root.kind, HangKind::kTransfer);
}

TEST(OpenCallGraph, WhereARankSynchronisesIsNotKnownOfAFewSteps) {
  StepJob steps{.steps = kFewestSynchronisations - 1};
  EXPECT_EQ(steps.judge().root.kind, HangKind::kTransfer);
}

/// As PyTorch's do while it sets a job up.
TEST(OpenCallGraph, FirstCallsThatNoSynchronisationEndedAreNotPartOfTheHabit) {
  StepJob steps{.steps = 8, .ended_by_network = 2};
  EXPECT_EQ(steps.judge().root.kind, HangKind::kOutside);
}

/// Before these it synchronised there.
TEST(OpenCallGraph, WhereARankSynchronisedBeforeCallsThatEndedOtherwiseIsKnown) {
  StepJob steps{.steps = 8, .launched = {8, 2, 8, 8}, .ended_by_network = 2};
  steps.ends_apart = false;  // one wait ended both
  EXPECT_EQ(steps.judge().root.kind, HangKind::kTransfer);
}

/// Then some of its synchronisations are not seen as such.
TEST(OpenCallGraph, WhereARankSynchronisesIsNotKnownIfManyCallsEndedOtherwise) {
  StepJob steps{.ended_by_network = StepJob::kCalls};
  EXPECT_EQ(steps.judge().root.kind, HangKind::kTransfer);
}

/// What rank 1 has launched, rank 2 has not: rank 2 is further behind.
TEST(OpenCallGraph, OfRanksThatStoppedTheFirstIsOutside) {
  StepJob steps{.launched = {8, 5, 2, 8, 8, 8}};
  const OpenCallGraph::Absence absence = steps.judge();
  ASSERT_EQ(absence.root.kind, HangKind::kOutside);
  EXPECT_EQ(steps.job.cluster->member(absence.root.member).pid, 12);
}

}  // namespace
}  // namespace stalltrace::analysis
