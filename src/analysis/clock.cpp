// SPDX-License-Identifier: Apache-2.0
#include "analysis/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "analysis/thresholds.h"
#include "base/hash.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kOpenInstances = 20'000;  // enough for clocks that are seconds apart at thousands of calls a second

/// Operations in which every rank needs every other: no completion before the last arrival.
bool synchronises(Operation op) {
  return op == Operation::kAllReduce || op == Operation::kAllGather || op == Operation::kReduceScatter ||
         op == Operation::kAllToAll || op == Operation::kBarrier;
}

struct Edge {
  int64_t last_arrival_ns = std::numeric_limits<int64_t>::min();
  int64_t first_end_ns = std::numeric_limits<int64_t>::max();
};

struct Bounds {
  int64_t low_ns = std::numeric_limits<int64_t>::min();
  int64_t high_ns = std::numeric_limits<int64_t>::max();
  [[nodiscard]] bool known() const {
    return low_ns != std::numeric_limits<int64_t>::min() && high_ns != std::numeric_limits<int64_t>::max();
  }
};

using InstanceKey = std::pair<CommHash, int64_t>;
struct InstanceHash {
  size_t operator()(const InstanceKey& key) const {
    return splitmix64_fold(key.first, static_cast<uint64_t>(key.second));
  }
};

/// Bounds of what to add to each host's times, against the first host that took part in one, from instances that both
/// took part in.
class OffsetBounds {
 public:
  explicit OffsetBounds(size_t hosts) : bounds_(hosts), took_part_(hosts) {}

  void add(size_t host, InstanceKey key, int64_t arrival_ns, std::optional<int64_t> end_ns) {
    reference_ = reference_.value_or(host);
    took_part_[host] = true;
    auto [found, fresh] = open_.try_emplace(key);
    if (fresh) {
      found->second.resize(bounds_.size());
      order_.push_back(key);
    }
    Edge& edge = found->second[host];
    edge.last_arrival_ns = std::max(edge.last_arrival_ns, arrival_ns);
    edge.first_end_ns = std::min(edge.first_end_ns, end_ns.value_or(edge.first_end_ns));
    tighten(found->second, host);
    if (order_.size() > kOpenInstances) {
      open_.erase(order_.front());
      order_.pop_front();
    }
  }
  [[nodiscard]] const Bounds& bounds(size_t host) const { return bounds_[host]; }
  [[nodiscard]] bool took_part(size_t host) const { return took_part_[host]; }
  [[nodiscard]] size_t reference() const { return reference_.value_or(0); }

 private:
  /// After `changed` did; a host's bounds depend on itself and the reference alone.
  void tighten(const std::vector<Edge>& edges, size_t changed) {
    constexpr Edge kNone;
    const Edge& reference = edges[*reference_];
    for (size_t host = 0; host < edges.size(); ++host) {
      if (host == *reference_ || (changed != *reference_ && host != changed)) {
        continue;
      }
      const Edge& other = edges[host];
      if (other.last_arrival_ns != kNone.last_arrival_ns && reference.first_end_ns != kNone.first_end_ns) {
        bounds_[host].high_ns = std::min(bounds_[host].high_ns, reference.first_end_ns - other.last_arrival_ns);
      }
      if (reference.last_arrival_ns != kNone.last_arrival_ns && other.first_end_ns != kNone.first_end_ns) {
        bounds_[host].low_ns = std::max(bounds_[host].low_ns, reference.last_arrival_ns - other.first_end_ns);
      }
    }
  }

  std::vector<Bounds> bounds_;
  std::vector<bool> took_part_;
  std::optional<size_t> reference_;
  std::unordered_map<InstanceKey, std::vector<Edge>, InstanceHash> open_;
  std::deque<InstanceKey> order_;
};

}  // namespace

Result<Clock> Clock::align(EventSource& source, const std::vector<Node>& nodes) {
  Clock clock;
  std::map<std::string, size_t> hosts;  // boot id to host
  std::vector<const Node*> references;
  std::unordered_map<NodeId, size_t> host_of;
  for (const Node& node : nodes) {
    const std::string boot = node.boot_id.empty() ? fmt::format("node {}", node.node_id) : node.boot_id;
    const auto [found, fresh] = hosts.try_emplace(boot, references.size());
    if (fresh) {
      references.push_back(&node);
    }
    host_of[node.node_id] = found->second;
    clock.hosts_[node.node_id] = {.index = found->second};
    clock.shifts_[node.node_id] = references[found->second]->clock_offset_ns - node.clock_offset_ns;
  }
  if (references.size() < 2) {
    return clock;
  }
  OffsetBounds offsets(references.size());
  ST_TRY(source.collectives({}, [&](const Collective& call) {
    const auto host = host_of.find(call.node_id);
    if (host == host_of.end() || call.comm_id_hash == 0 || !call.seq || !synchronises(call.op)) {
      return;
    }
    const int64_t arrival_ns = clock.to_common(call.node_id, call.timestamp_ns);
    offsets.add(host->second, {call.comm_id_hash, *call.seq}, arrival_ns,
                call.duration_ns ? std::optional(arrival_ns + *call.duration_ns) : std::nullopt);
  }));
  const Node& reference = *references[offsets.reference()];
  for (size_t host = 0; host < references.size(); ++host) {
    if (host == offsets.reference() || !offsets.took_part(host)) {
      continue;  // a host without collectives, such as a head node, has nobody to be late
    }
    const Bounds& bounds = offsets.bounds(host);
    if (!bounds.known()) {
      clock.distrust(host);
      clock.notes_.push_back(fmt::format(
          "the clock of {} could not be compared with that of {} (no collective that both took part in): who arrived "
          "late across them is not judged reliably",
          references[host]->name, reference.name));
      continue;
    }
    const int64_t offset_ns = bounds.low_ns + (bounds.high_ns - bounds.low_ns) / 2;
    const int64_t error_ns = std::abs(bounds.high_ns - bounds.low_ns) / 2;
    for (const Node& node : nodes) {
      if (host_of[node.node_id] == host) {
        clock.shifts_[node.node_id] += offset_ns;
      }
    }
    if (error_ns > kStallFloorNs) {
      clock.distrust(host);
    }
    clock.notes_.push_back(fmt::format("the clock of {} was moved by {} to that of {}, known to within {}",
                                       references[host]->name, format_duration(offset_ns), reference.name,
                                       format_duration(error_ns)));
  }
  return clock;
}

void Clock::distrust(size_t host) {
  for (auto& [node, known] : hosts_) {
    known.reliable = known.reliable && known.index != host;
  }
}

bool Clock::comparable(NodeId a, NodeId b) const {
  const auto x = hosts_.find(a);
  const auto y = hosts_.find(b);
  if (x == hosts_.end() || y == hosts_.end() || x->second.index == y->second.index) {
    return true;
  }
  return x->second.reliable && y->second.reliable;
}

int64_t Clock::shift_ns(NodeId node) const {
  const auto found = shifts_.find(node);
  return found == shifts_.end() ? 0 : found->second;
}

int64_t Clock::largest_shift_ns() const {
  int64_t largest = 0;
  for (const auto& [node, shift] : shifts_) {
    largest = std::max(largest, std::abs(shift));
  }
  return largest;
}

}  // namespace stalltrace::analysis
