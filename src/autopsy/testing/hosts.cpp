// SPDX-License-Identifier: Apache-2.0
#include "autopsy/testing/hosts.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "model/json/autopsy_result.h"

namespace stalltrace::autopsy::testing {

HostResult host_of(JobSnapshots& job, const std::string& node, int first, int last) {
  HostResult host{.file = node + ".json", .node = node, .snapshots = {}, .traced = {}, .ras = {}};
  host.traced.lasted_ns = 3 * kNsPerSecond;
  for (const Snapshot& snapshot : job.snapshots()) {
    Snapshot& part = host.snapshots.emplace_back();
    part.taken_ns = snapshot.taken_ns;
    for (size_t i = 0; i < snapshot.ranks.size(); ++i) {
      const RankState& rank = snapshot.ranks[i];
      if (rank.rank && *rank.rank >= first && *rank.rank <= last) {
        part.ranks.push_back(rank);
        part.ranks.back().node = node;
        part.host_addresses.push_back(snapshot.host_addresses.at(static_cast<size_t>(*rank.rank)));
      }
    }
  }
  return host;
}

nlohmann::ordered_json file_of(const HostResult& host) {
  return {{kMadeBy, kMadeByAutopsy}, {"schema", kResultSchema}, {"node", host.node}, {"evidence", evidence_json(host)}};
}

}  // namespace stalltrace::autopsy::testing
