// SPDX-License-Identifier: Apache-2.0
// The steps of the tests between nodes, in this order. Each asks the ranks, and adds to their results.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "preflight/peers/coordinator/ranks.h"
#include "preflight/peers/rounds.h"

namespace stalltrace::preflight {

/// Has each node look up the names of the nodes that it will be tested with.
void look_up_names(Ranks& ranks, const std::vector<std::vector<Pair>>& rounds);
/// Both directions of each pair; the pairs of a round at the same time.
void test_pairs(Ranks& ranks, const std::vector<std::vector<Pair>>& rounds);
/// Pairs far below the median, once more; the better result counts.
void test_slow_pairs_again(Ranks& ranks);
/// When each rank answers, round by round.
void test_barrier(Ranks& ranks);
/// Each node sends to the next, all at once. Before, those that no pair has tested connect to it.
void test_together(Ranks& ranks);
/// Has the library of each rank make collectives of all ranks that are there, size by size. Ends at the first one that
/// fails on a rank.
void test_collectives(Ranks& ranks, const std::function<void(const std::string&)>& announce);

}  // namespace stalltrace::preflight
