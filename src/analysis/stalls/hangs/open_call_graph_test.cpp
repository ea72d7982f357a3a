// SPDX-License-Identifier: Apache-2.0
// Walks over open calls: their results, and their time limit if there are many paths.
#include "analysis/stalls/hangs/open_call_graph.h"

#include <gtest/gtest.h>

#include "analysis/testing/small_job.h"

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

}  // namespace
}  // namespace stalltrace::analysis
