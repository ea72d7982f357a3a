// SPDX-License-Identifier: Apache-2.0
// Sequences of communicators made before tracing began: which of them match, and by which calls.
#include "analysis/timeline/match_unknown.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kStepNs = 20 * kNsPerMs;

class MatchUnknown : public testing::Test {
 protected:
  MatchUnknown() {
    for (int32_t pid = 10; pid < 14; ++pid) {
      Process process{.node_id = 1, .pid = pid, .exe = "/opt/train"};
      process.job_id = "job";
      process.world_size = 4;
      source_.accept(process);
    }
    source_.accept(Node{.node_id = 1, .name = "node"});
    cluster_ = *Cluster::load(source_);
  }

  /// A sequence of a rank whose recording began with call `first` of the job; its first call has number 0.
  uint32_t add(int32_t pid, int64_t first, int64_t begin_ns = 0, uint16_t signature = 0) {
    CallSequence sequence{.member = cluster_->join(1, pid)};
    for (int64_t call = first; call < 100; ++call) {
      const int64_t arrival_ns = begin_ns + call * kStepNs + pid * kNsPerUs;
      sequence.calls.push_back(Call{arrival_ns, 5000, signature, Completion::kSync, true});
    }
    sequences_.push_back(std::move(sequence));
    return static_cast<uint32_t>(sequences_.size() - 1);
  }
  std::vector<std::vector<uint32_t>> match() {
    std::vector<uint32_t> all;
    for (uint32_t i = 0; i < sequences_.size(); ++i) {
      all.push_back(i);
    }
    return match_unknown_sequences(sequences_, all, *cluster_);
  }

  MemorySource source_;
  std::optional<Cluster> cluster_;
  std::vector<CallSequence> sequences_;
};

TEST_F(MatchUnknown, CallsOfOneTimeAreOneInstance) {
  add(10, 0);
  add(11, 7);  // its tracer began seven calls later
  ASSERT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0, 1}}));
  const int64_t number = sequences_[1].first_number();
  EXPECT_EQ(number - sequences_[0].first_number(), 7);
  EXPECT_EQ(sequences_[0].call_at(number)->arrival_ns + kNsPerUs, sequences_[1].calls[0].arrival_ns);
}

TEST_F(MatchUnknown, OneRankIsInAGroupOnce) {
  add(10, 0);
  add(10, 0, kStepNs / 2);
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0}, {1}}));
}

TEST_F(MatchUnknown, CallsThatDifferInKindDoNotBelongTogether) {
  add(10, 0, 0, 0);
  add(11, 0, 0, 1);
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0}, {1}}));
}

TEST_F(MatchUnknown, OfTwoGroupsTheNearerIsTaken) {
  add(10, 0);
  add(10, 0, kStepNs / 2);
  add(11, 0, kStepNs / 2);
  add(11, 0);
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0, 3}, {1, 2}}));
}

TEST_F(MatchUnknown, CommunicatorsOfDifferentSizesAreApart) {
  sequences_.reserve(2);
  sequences_[add(10, 0)].nranks = 2;
  sequences_[add(11, 0)].nranks = 4;
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0}, {1}}));
}

}  // namespace
}  // namespace stalltrace::analysis
