// SPDX-License-Identifier: Apache-2.0
// Which communicators lose their name where ranks launch CUDA graphs: those that only the profiler file numbers.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/testing/loaded_job.h"

namespace stalltrace::analysis {
namespace {

/// The small job, on a communicator that is as `row` says, with graphs.
std::vector<CallSequence> sequences_beside_graphs(const Communicator& row, bool runtime_is_recorded) {
  MemorySource source;
  small_job::fill(source, {});
  for (int rank = 0; rank < small_job::kRanks; ++rank) {
    Communicator own = row;
    own.node_id = small_job::node_of_rank(rank);
    own.pid = 10 + rank;
    own.comm_ptr = own.comm_id_hash = small_job::kHash;
    own.rank = rank;
    own.nranks = small_job::kRanks;
    own.rank_source = RankSource::kPlugin;
    source.accept(own);
  }
  if (runtime_is_recorded) {
    source.accept(GraphUse{.node_id = small_job::node_of_rank(1), .pid = 11, .launches = 7});
  }
  const small_job::LoadedJob job(std::move(source));
  return {job.timeline.sequences().begin(), job.timeline.sequences().end()};
}

bool are_named(const std::vector<CallSequence>& sequences) {
  return std::ranges::all_of(sequences, [](const CallSequence& one) { return one.hash == small_job::kHash; });
}

TEST(BesideGraphs, OneThatTheFileNumbersLosesItsName) {
  EXPECT_FALSE(are_named(sequences_beside_graphs({}, true)));
  EXPECT_TRUE(are_named(sequences_beside_graphs({}, false))) << "no rank launched graphs";
}

TEST(BesideGraphs, ASplitOfAKnownOneKeepsIt) {
  Communicator split;
  split.parent_hash = 5;
  EXPECT_TRUE(are_named(sequences_beside_graphs(split, true)));
}

}  // namespace
}  // namespace stalltrace::analysis
