// SPDX-License-Identifier: Apache-2.0
// Which nodes are tested with each other, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stalltrace::preflight {

/// Nodes by index; the first one sends first.
using Pair = std::pair<int32_t, int32_t>;

/// All pairs of `nodes` in rounds, in each of which a node is in one pair at most (the circle method of tournaments).
/// Where there are more than `most` rounds, `most` of them, evenly chosen: every node is still tested with `most`
/// others.
std::vector<std::vector<Pair>> plan_rounds(int32_t nodes, size_t most);

}  // namespace stalltrace::preflight
