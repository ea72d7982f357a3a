// SPDX-License-Identifier: Apache-2.0
#include "analysis/offsets.h"

#include <algorithm>
#include <map>
#include <optional>

namespace stalltrace::analysis {
namespace {

/// Operations in which every rank needs every other: no completion before the last arrival.
bool synchronises(Operation op) {
  return op == Operation::kAllReduce || op == Operation::kAllGather || op == Operation::kReduceScatter ||
         op == Operation::kAllToAll || op == Operation::kBarrier;
}

struct HostLane {
  const Lane* lane;
  size_t host;
};

/// The sequence numbers that any of the lanes holds, as intervals: lanes may lie far apart.
IntervalSet sequence_numbers(const std::vector<HostLane>& lanes) {
  std::vector<Interval> ranges;
  for (const HostLane& entry : lanes) {
    const int64_t first = entry.lane->first_seq;
    ranges.push_back({first, first + static_cast<int64_t>(entry.lane->calls.size())});
  }
  return IntervalSet(std::move(ranges));
}

HostEdge& operator+=(HostEdge& edge, const Call& call) {
  edge.last_arrival_ns = std::max(edge.last_arrival_ns, call.arrival_ns);
  edge.first_end_ns = std::min(edge.first_end_ns, call.end_ns());
  return edge;
}

/// One communicator's lanes, instance after instance.
void add_communicator(const std::vector<HostLane>& lanes, const std::vector<Shape>& shapes, OffsetBounds& bounds) {
  std::vector<HostEdge> edges;
  const IntervalSet numbers = sequence_numbers(lanes);
  for (const Interval& range : numbers.intervals()) {
    for (int64_t seq = range.from_ns; seq < range.to_ns; ++seq) {
      edges.assign(bounds.hosts(), HostEdge{});
      for (const HostLane& entry : lanes) {
        const Call* call = entry.lane->at_column(seq + entry.lane->column_offset);
        if (call != nullptr && synchronises(shapes[call->shape].op)) {
          edges[entry.host] += *call;
        }
      }
      bounds.add(edges);
    }
  }
}

}  // namespace

OffsetBounds bound_offsets(const std::vector<Lane>& lanes, const std::vector<Shape>& shapes, const Cluster& cluster) {
  std::map<CommHash, std::vector<HostLane>> communicators;
  std::optional<size_t> reference;
  for (const Lane& lane : lanes) {
    if (lane.hash == 0 || lane.point_to_point) {
      continue;
    }
    const size_t host = cluster.clock().host(cluster.member(lane.member).node_id);
    reference = reference.value_or(host);
    communicators[lane.hash].push_back({&lane, host});
  }
  OffsetBounds bounds(cluster.clock().hosts(), reference.value_or(0));
  for (const auto& [hash, members] : communicators) {
    add_communicator(members, shapes, bounds);
  }
  return bounds;
}

}  // namespace stalltrace::analysis
