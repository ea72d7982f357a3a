// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/evidence_counters.h"

#include <algorithm>

namespace stalltrace::analysis {
namespace {

void add(EvidenceCounter& sum, const EvidenceCounter& more) {
  sum.count += more.count;
  sum.time_ns += more.time_ns;
  for (const EventId id : more.events) {
    if (sum.events.size() < kSampleEvents && std::ranges::find(sum.events, id) == sum.events.end()) {
      sum.events.push_back(id);
    }
  }
}

}  // namespace

EvidenceCounter EvidenceCounters::sum_of(std::type_index keys, int key) const {
  EvidenceCounter sum;
  for (auto it = counters_.lower_bound({keys, key, ""});
       it != counters_.end() && it->first.keys == keys && it->first.key == key; ++it) {
    add(sum, it->second);
  }
  return sum;
}

EvidenceCounters::Detail EvidenceCounters::longest_of(std::type_index keys, int key) const {
  Detail longest;
  for (auto it = counters_.lower_bound({keys, key, ""});
       it != counters_.end() && it->first.keys == keys && it->first.key == key; ++it) {
    if (!it->first.detail.empty() && (longest.detail.empty() || it->second.time_ns > longest.time_ns)) {
      longest = {it->first.detail, it->second.time_ns};
    }
  }
  return longest;
}

void EvidenceCounters::merge(const EvidenceCounters& more) {
  for (const auto& [id, counter] : more.counters_) {
    add(counters_[id], counter);
  }
}

}  // namespace stalltrace::analysis
