// SPDX-License-Identifier: Apache-2.0
// Failed and successful connection attempts while a job is set up.
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

/// Attempts by one process to reach one address.
struct Attempts {
  int64_t refused = 0;
  int64_t unanswered = 0;
  int64_t first_ns = kForever;  // on the common clock
  int64_t last_ns = 0;
  int32_t error = 0;
  Endpoint target;
  std::vector<EventId> events;

  [[nodiscard]] int64_t count() const { return refused + unanswered; }
};

using ProcessKey = std::pair<NodeId, int32_t>;  // node and pid
using Unreached = std::map<std::pair<ProcessKey, Endpoint>, Attempts>;

struct Reach {
  Unreached unreached;
  std::map<ProcessKey, std::set<Endpoint>> reached;
  std::set<std::string> own_addresses;  // addresses of the recorded nodes, from the connections that they opened
};

/// Unanswered SYNs are retransmissions without payload. SYNs of connections that were established later were only
/// delayed, for example while a listen queue overflows at the start of all ranks.
Result<Reach> reach_in(EventSource& source, const Cluster& cluster, Interval time);

/// Unanswered attempts to reach each address, of all processes and ports: TCP repeats a SYN only after seconds, so one
/// process has few of them. `unreached` is an Unreached, or the same with another key of the process.
template <typename Key>
std::map<std::string, int64_t> unanswered_by_address(const std::map<std::pair<Key, Endpoint>, Attempts>& unreached) {
  std::map<std::string, int64_t> unanswered;
  for (const auto& [who, attempts] : unreached) {
    unanswered[attempts.target.address] += attempts.unanswered;
  }
  return unanswered;
}

/// "refused", "unreachable", "not answered"
std::string_view error_text(const Attempts& attempts);

/// "12 attempts from rank 1 to 127.0.0.1:29999: refused"
Evidence attempts_evidence(const std::string& who, const Attempts& attempts);

}  // namespace stalltrace::analysis
