// SPDX-License-Identifier: Apache-2.0
// Sequences of communicators made before tracing began: which of them match, and by which calls.
#include "analysis/timeline/communicators/match_unknown.h"

#include <gtest/gtest.h>

#include "analysis/testing/small_job.h"
#include "analysis/thresholds/matching.h"
#include "base/clock.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kStepNs = 20 * kNsPerMs;
constexpr int64_t kLongStepNs = 800 * kNsPerMs;
constexpr int kElsewhere = 20;  // first pid on the other host

class MatchUnknown : public testing::Test {
 protected:
  MatchUnknown() {
    for (const int32_t pid : {10, 11, 12, 13, kElsewhere}) {
      Process process{.node_id = node_of(pid), .pid = pid, .exe = "/opt/train"};
      process.job_id = "job";
      process.world_size = 4;
      source_.accept(process);
    }
    source_.accept(Node{.node_id = 1, .name = "node", .boot_id = "boot"});
    source_.accept(Node{.node_id = 2, .name = "other", .boot_id = "other boot"});
    cluster_ = *Cluster::load(source_);
    OffsetBounds nothing_known(2, 0);
    nothing_known.add_host(1);
    cluster_->align(nothing_known);
  }
  static NodeId node_of(int32_t pid) { return pid < kElsewhere ? 1 : 2; }

  /// A sequence of a rank whose recording began with call `first` of the job; its first call has number 0.
  uint32_t add(int32_t pid, int64_t first, int64_t begin_ns = 0, uint16_t signature = 0, int64_t step_ns = kStepNs) {
    CallSequence sequence{.member = cluster_->join(node_of(pid), pid)};
    for (int64_t call = first; call < 100; ++call) {
      const int64_t arrival_ns = begin_ns + call * step_ns + pid * kNsPerUs;
      sequence.calls.push_back(Call{arrival_ns, 5000, signature, Completion::kSync, true});
    }
    sequences_.push_back(std::move(sequence));
    return static_cast<uint32_t>(sequences_.size() - 1);
  }
  /// A sequence with a step long enough that no other call of it is near.
  uint32_t add_rare(int32_t pid, int64_t begin_ns) { return add(pid, 0, begin_ns, 0, kLongStepNs); }
  std::vector<std::vector<uint32_t>> match() {
    std::vector<uint32_t> all;
    for (uint32_t i = 0; i < sequences_.size(); ++i) {
      all.push_back(i);
    }
    UnknownMatches matches = match_unknown_sequences(sequences_, all, *cluster_);
    unmatched_ = matches.unmatched;
    nccl_hashes_ = matches.nccl_hashes;
    return matches.groups;
  }

  std::vector<uint32_t> unmatched_;
  std::vector<CommHash> nccl_hashes_;
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

/// The calls of both communicators end at the same times.
TEST_F(MatchUnknown, NcclsOwnHashesDecideWhatTimesDoNot) {
  for (const bool known : {false, true}) {
    sequences_.clear();
    for (const int32_t pid : {10, 11}) {
      for (const CommHash hash : {0xa, 0xb}) {
        add(pid, pid == 10 ? 0 : 7);
        sequences_.back().nccl_hash = known ? hash : 0;
        sequences_.back().nranks = 2;
        sequences_.back().comm_rank = pid - 10;
      }
    }
    const auto groups = match();
    if (known) {
      EXPECT_EQ(groups, (std::vector<std::vector<uint32_t>>{{0, 2}, {1, 3}}));
      EXPECT_EQ(nccl_hashes_, (std::vector<CommHash>{0xa, 0xb}));
      EXPECT_EQ(sequences_[2].first_number() - sequences_[0].first_number(), 7);
    } else {
      EXPECT_EQ(groups.size(), 4U);
      EXPECT_EQ(nccl_hashes_, std::vector<CommHash>(4, 0));
    }
  }
}

/// Another rank of the communicator ends its calls at other times: it is not in the group, which so is not all of it.
TEST_F(MatchUnknown, AHashOfTwoGroupsIsTheNameOfNone) {
  for (const int32_t pid : {10, 11, 12}) {
    add_rare(pid, pid == 12 ? kLongStepNs / 2 : 0);
    sequences_.back().nccl_hash = 0xa;
  }
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0, 1}, {2}}));
  EXPECT_EQ(nccl_hashes_, std::vector<CommHash>(2, 0));
  EXPECT_EQ(unmatched_, (std::vector<uint32_t>{2}));
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

TEST_F(MatchUnknown, CallsThatEndFarApartAreNotOneInstance) {
  add_rare(10, 0);
  add_rare(11, kMatchedEndsApartNs + kNsPerMs);
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0}, {1}}));
  EXPECT_EQ(unmatched_, (std::vector<uint32_t>{0, 1})) << "each made the calls of the other";
}

/// A stage of a pipeline is behind the one before it; its ranks are together all the same.
TEST_F(MatchUnknown, RanksThatAreFarFromOneGroupFindEachOther) {
  add_rare(10, 0);
  add_rare(11, 0);
  add_rare(12, 150 * kNsPerMs);
  add_rare(13, 150 * kNsPerMs);
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0, 1}, {2, 3}}));
  EXPECT_TRUE(unmatched_.empty());
}

TEST_F(MatchUnknown, ClocksThatCannotBeComparedMayBeFurtherApart) {
  for (const int64_t apart_ns : {60 * kNsPerMs, kMatchedEndsApartNs + kMatchedUncertainNs + kNsPerMs}) {
    sequences_.clear();
    add_rare(10, 0);
    add_rare(kElsewhere, apart_ns);
    EXPECT_EQ(match().size(), apart_ns == 60 * kNsPerMs ? 1U : 2U) << apart_ns;
  }
}

/// The clock of the other host is 40 ms ahead: the calls of its first communicator are nearest to those of the second.
TEST_F(MatchUnknown, ClocksThatCannotBeComparedDoNotChoose) {
  for (const int64_t second_ns : {50 * kNsPerMs, 400 * kNsPerMs}) {
    sequences_.clear();
    for (const int32_t pid : {10, kElsewhere}) {
      for (const int64_t begin_ns : {int64_t{0}, second_ns}) {
        add_rare(pid, begin_ns + (pid == kElsewhere ? 40 * kNsPerMs : 0));
      }
    }
    if (second_ns == 400 * kNsPerMs) {
      EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0, 2}, {1, 3}}));
    } else {
      EXPECT_EQ(match().size(), 4U);
      EXPECT_EQ(unmatched_, (std::vector<uint32_t>{0, 1, 2, 3}));
    }
  }
}

/// When the second one is matched, the first is the only one that has a group, and near enough.
TEST_F(MatchUnknown, WhatHasNoGroupYetIsComparedAsWell) {
  constexpr int64_t kStepsApartNs = 100 * kNsPerMs;
  constexpr int64_t kLaterNs = 15 * kNsPerMs;
  add(11, 0, 0, 0, kStepsApartNs);
  add(10, 0, kLaterNs, 0, kStepsApartNs);
  add(11, 0, kLaterNs, 0, kStepsApartNs);
  add(10, 0, 0, 0, kStepsApartNs);
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0, 3}, {1, 2}}));
  EXPECT_TRUE(unmatched_.empty());
}

TEST_F(MatchUnknown, WhatMayBelongToManyCommunicatorsIsNotCompared) {
  for (const size_t others : {kMostMatchCandidates - 1, kMostMatchCandidates + 1}) {
    sequences_.clear();
    for (size_t other = 0; other < others; ++other) {
      add(1000 + static_cast<int32_t>(other), 95, 0, static_cast<uint16_t>(other + 1));
    }
    add(998, 90);
    add(999, 90);
    const bool few = others < kMostMatchCandidates;
    EXPECT_EQ(match().size(), others + (few ? 1 : 2));
    EXPECT_EQ(unmatched_.size(), others + (few ? 0 : 2));
  }
}

TEST_F(MatchUnknown, WhatFitsNoneIsUnmatched) {
  add(10, 0, 0, 0);
  add(11, 0, 0, 1);
  add(12, 0, 0, 2);
  sequences_[2].nranks = 1;
  add(13, 0, 0, 3);
  sequences_[3].point_to_point = true;
  EXPECT_EQ(match().size(), 4U);
  EXPECT_EQ(unmatched_, (std::vector<uint32_t>{0, 1})) << "the others wait for no other rank, or for one";
}

TEST_F(MatchUnknown, AJobOfOneRankLacksNone) {
  sequences_.push_back({.member = cluster_->join(1, 500)});
  EXPECT_EQ(match().size(), 1U);
  EXPECT_TRUE(unmatched_.empty());
}

/// A rank that died early has made a small part of the calls of the others.
TEST_F(MatchUnknown, ASequenceThatEndedEarlyIsMatched) {
  for (const bool first : {false, true}) {
    sequences_.clear();
    for (const int32_t pid : {10, 11}) {
      CallSequence& sequence = sequences_[add(pid, -900)];
      if ((pid == 10) == first) {
        sequence.calls.resize(100);
      }
    }
    EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0, 1}}));
    EXPECT_EQ(sequences_[1].first_number(), sequences_[0].first_number());
  }
}

TEST_F(MatchUnknown, OfTwoGroupsThatAreAboutAsNearNoneIsTaken) {
  add_rare(10, 0);
  add_rare(10, 6 * kNsPerMs);
  add_rare(11, 2'500 * kNsPerUs);
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0}, {1}, {2}}));
  EXPECT_EQ(unmatched_, (std::vector<uint32_t>{0, 1, 2}));
}

/// Two communicators of the same ranks whose calls one synchronisation ends: nothing distinguishes them.
TEST_F(MatchUnknown, CallsOfTwoCommunicatorsWithTheSameEndsAreNotMatched) {
  for (const int32_t pid : {10, 10, 11, 11}) {
    add_rare(pid, 0);
  }
  EXPECT_EQ(match().size(), 4U);
  EXPECT_EQ(unmatched_, (std::vector<uint32_t>{0, 1, 2, 3}));
}

/// It never ended, and a rank came an hour late: a mean of all differences would match each call with the next one.
TEST_F(MatchUnknown, OneLateCallWithoutAnEndIsNoSign) {
  for (const int32_t pid : {10, 11}) {
    Call& last = sequences_[add_rare(pid, 0)].calls.back();
    last.duration_us = kOpenDuration;
    last.completion = Completion::kOpen;
    last.arrival_ns += pid == 11 ? 3600 * kNsPerSecond : 0;
  }
  ASSERT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0, 1}}));
  EXPECT_EQ(sequences_[1].first_number(), sequences_[0].first_number());
}

TEST_F(MatchUnknown, CallsWithoutEndsMayBeFurtherApart) {
  for (const int32_t pid : {10, 11}) {
    for (Call& call : sequences_[add_rare(pid, pid == 11 ? 60 * kNsPerMs : 0)].calls) {
      call.duration_us = kOpenDuration;
      call.completion = Completion::kUnobserved;
    }
  }
  EXPECT_EQ(match(), (std::vector<std::vector<uint32_t>>{{0, 1}})) << "a rank may always come later";
}

/// Four ranks of a small job that was attached late call on one communicator; rank 3's calls are half a step from those
/// of the others.
TEST(UnmatchedCalls, AreNotedAndLeaveNoGroupWhole) {
  for (const bool far : {false, true}) {
    small_job::Ending ending;
    ending.call = [far](int rank, int64_t, Collective& call) {
      call.comm_id_hash = 0;
      call.rank.reset();
      call.nranks.reset();
      call.timestamp_ns += far && rank == 3 ? small_job::kStepNs / 2 : 0;
      return true;
    };
    ending.process = [](int, Process& process) {
      process.rank_source = RankSource::kEnvironment;
      process.world_size = small_job::kRanks;
      process.job_id = "job";
      process.start_ns = small_job::kOriginNs - 60 * kNsPerSecond;
    };
    MemorySource source;
    small_job::fill(source, ending);
    Cluster cluster = *Cluster::load(source);
    const Timeline timeline = *Timeline::load(source, cluster);
    ASSERT_EQ(timeline.groups().size(), far ? 2U : 1U);
    EXPECT_EQ(timeline.groups()[0].sequences.size(), far ? 3U : 4U);
    EXPECT_EQ(timeline.groups()[0].all_took_part, !far) << "rank 3 may be one of them";
    ASSERT_EQ(timeline.notes().size(), far ? 1U : 0U);
    if (far) {
      golden::expect_text(timeline.notes()[0]);
    }
  }
}

}  // namespace
}  // namespace stalltrace::analysis
