// SPDX-License-Identifier: Apache-2.0
// What the tests between nodes mean. Pure.
#pragma once

#include <map>
#include <vector>

#include "preflight/host_check.h"
#include "preflight/peers/launch.h"
#include "preflight/peers/rounds.h"

namespace stalltrace::preflight {

struct Judgement {
  std::vector<HostCheck> checks;
  std::map<Pair, Outcome> pairs;  // directed, the worst of each; those that are not here are ok
  [[nodiscard]] bool failed() const;
};

/// Compares the hosts, the pairs with each other and with the speed of their interfaces, and the ranks' arrivals. What
/// is wrong on all links of a node is one check.
Judgement judge(const LaunchResults& results);

/// The median of a rank's arrivals at the barrier; 0 without any.
int64_t median_arrival_ns(const TestedRank& rank);

}  // namespace stalltrace::preflight
