// SPDX-License-Identifier: Apache-2.0
// Attempts to connect that came to nothing, and those that did not, while a job is set up.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/intervals.h"
#include "analysis/timeline/cluster.h"
#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// Of one process to reach one address.
struct Attempts {
  int64_t refused = 0;
  int64_t unanswered = 0;
  int64_t first_ns = kForever;  // in the common clock
  int64_t last_ns = 0;
  int32_t error = 0;
  Endpoint target;
  std::vector<EventId> events;

  [[nodiscard]] int64_t count() const { return refused + unanswered; }
};

using ProcessKey = std::pair<NodeId, int32_t>;  // by pid
using Unreached = std::map<std::pair<ProcessKey, Endpoint>, Attempts>;

struct Reach {
  Unreached unreached;
  std::map<ProcessKey, std::set<Endpoint>> reached;
  std::set<std::string> own_addresses;  // of the recorded nodes, as far as connections came from them
};

/// SYNs that nobody answers are retransmissions without payload; those of connections that came about later were only
/// late, as where a queue of connections overflows while all ranks start.
Result<Reach> reach_in(EventSource& source, const Cluster& cluster, Interval time);

/// By all processes together, on any port: TCP repeats a SYN only after seconds. `unreached`: as Unreached, by whatever
/// names a process.
template <typename Key>
int64_t unanswered_at(const std::map<std::pair<Key, Endpoint>, Attempts>& unreached, const Endpoint& target) {
  int64_t unanswered = 0;
  for (const auto& [who, attempts] : unreached) {
    unanswered += attempts.target.address == target.address ? attempts.unanswered : 0;
  }
  return unanswered;
}

/// "refused", "unreachable", "not answered"
std::string_view error_text(const Attempts& attempts);

/// "12 attempts from rank 1 to 127.0.0.1:29999: refused"
Evidence attempts_evidence(const std::string& who, const Attempts& attempts);

}  // namespace stalltrace::analysis
