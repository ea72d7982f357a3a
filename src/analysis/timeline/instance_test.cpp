// SPDX-License-Identifier: Apache-2.0
// Reading all instances of a group gives those that reading one after the other gives, however many ranks it has.
#include "analysis/timeline/instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "analysis/testing/loaded_job.h"
#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;
constexpr int64_t kCalls = 41;  // no multiple of what is read together

/// All ranks on one node; rank 5 has no call 20, and the last call of rank 0 does not end.
void fill(MemorySource& source, int32_t ranks) {
  source.accept(Node{.node_id = 1, .name = "node", .boot_id = "boot", .started_ns = kOriginNs});
  uint64_t number = 0;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    for (int64_t seq = 0; seq < kCalls; ++seq) {
      if (rank == 5 && seq == 20) {
        continue;
      }
      Collective call{.event_id = make_event_id(1, ++number), .node_id = 1};
      call.timestamp_ns = kOriginNs + seq * 10 * kNsPerMs + (rank * 37 % ranks) * kNsPerUs;
      call.duration_ns = 5 * kNsPerMs;
      call.completion = Completion::kSync;
      if (rank == 0 && seq == kCalls - 1) {
        call.duration_ns.reset();
        call.completion = Completion::kOpen;
      }
      call.seq = seq;
      call.rank = rank;
      call.nranks = ranks;
      call.comm_id_hash = 77;
      call.comm_ptr = 77;
      call.pid = call.tid = 100 + rank;
      call.bytes = 1 << 20;
      source.accept(call);
    }
  }
}

/// What distinguishes an instance from another one.
struct Seen {
  int64_t number;
  std::vector<uint32_t> sequences;
  int64_t last_arrival_ns;
  int64_t completion_ns;
  bool hung;
  bool operator==(const Seen&) const = default;
};

Seen seen_of(const Instance& instance) {
  Seen seen{instance.number, {}, instance.last_arrival_ns, instance.completion_ns, instance.hung};
  for (const Arrival& arrival : instance.seen) {
    seen.sequences.push_back(arrival.sequence);
  }
  return seen;
}

class Instances : public testing::TestWithParam<int32_t> {};

TEST_P(Instances, AreReadInOrderEachOnce) {
  MemorySource source;
  fill(source, GetParam());
  const small_job::LoadedJob job(source);
  ASSERT_EQ(job.timeline.groups().size(), 1U);
  std::vector<Seen> all;
  Instance instance;
  for_each_instance(job.timeline, 0, instance, [&] { all.push_back(seen_of(instance)); });
  std::vector<Seen> expected;
  for (int64_t number = 0; number < kCalls; ++number) {
    ASSERT_TRUE(read_instance(job.timeline, 0, number, instance)) << number;
    expected.push_back(seen_of(instance));
  }
  EXPECT_EQ(all, expected);
  EXPECT_THAT(expected.front().sequences, testing::SizeIs(static_cast<size_t>(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(FewAndMany, Instances,
                         testing::Values(8, static_cast<int32_t>(kManyRanks), static_cast<int32_t>(kManyRanks) + 7));

}  // namespace
}  // namespace stalltrace::analysis
