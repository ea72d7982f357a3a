// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock_offsets.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace stalltrace::analysis {
namespace {

struct HostSequence {
  const CallSequence* sequence;
  size_t host;
};

/// The sequence numbers in any of the sequences, as intervals: they may be far apart.
IntervalSet sequence_numbers(const std::vector<HostSequence>& sequences) {
  std::vector<Interval> ranges;
  for (const HostSequence& entry : sequences) {
    const int64_t first = entry.sequence->first_seq;
    ranges.push_back({first, first + static_cast<int64_t>(entry.sequence->calls.size())});
  }
  return IntervalSet(std::move(ranges));
}

/// What its device did bounds more tightly than when its CPU called, which may have been long before.
void add(HostEdge& edge, const CallSequence& sequence, int64_t number, const Call& call) {
  edge.last_arrival_ns = std::max(edge.last_arrival_ns, sequence.kernel_start_ns(number).value_or(call.arrival_ns));
  edge.first_end_ns = std::min(edge.first_end_ns, call.end_ns());
}

/// From the first call to the last.
TimeRange span_of(const std::vector<CallSequence>& sequences) {
  TimeRange span{kForever, 0};
  for (const CallSequence& sequence : sequences) {
    if (!sequence.calls.empty()) {
      span.from_ns = std::min(span.from_ns, sequence.calls.front().arrival_ns);
      span.to_ns = std::max(span.to_ns, sequence.calls.back().arrival_ns + 1);
    }
  }
  return span.from_ns < span.to_ns ? span : TimeRange{};
}

/// Adds one communicator's sequences, instance by instance.
void add_communicator(const std::vector<HostSequence>& sequences, const std::vector<CallSignature>& signatures,
                      OffsetBounds& bounds) {
  if (std::ranges::find(sequences, bounds.reference(), &HostSequence::host) == sequences.end()) {
    return;  // it bounds no host against the reference
  }
  std::vector<HostEdge> edges;
  const IntervalSet numbers = sequence_numbers(sequences);
  for (const Interval& range : numbers.intervals()) {
    for (int64_t seq = range.from_ns; seq < range.to_ns; ++seq) {
      edges.assign(bounds.hosts(), HostEdge{});
      for (const HostSequence& entry : sequences) {
        const int64_t number = seq + entry.sequence->number_offset;
        const Call* call = entry.sequence->call_at(number);
        if (call != nullptr && synchronises(signatures[call->signature].op)) {
          add(edges[entry.host], *entry.sequence, number, *call);
        }
      }
      bounds.add(edges);
    }
  }
}

}  // namespace

void narrow_by_measured_clocks(const Cluster& cluster, OffsetBounds& bounds) {
  struct Best {
    int64_t offset_ns = 0;
    int64_t error_ns = kFarFutureNs;
  };
  std::map<size_t, Best> hosts;  // what is known most precisely of each host's common times
  for (const MeasuredClock& clock : cluster.measured_clocks()) {
    Best& best = hosts[cluster.clock().host(clock.node_id)];
    if (clock.error_ns < best.error_ns) {
      best = {clock.offset_ns + cluster.clock().shift_ns(clock.node_id), clock.error_ns};
    }
  }
  const auto reference = hosts.find(bounds.reference());
  if (reference == hosts.end()) {
    return;
  }
  for (const auto& [host, clock] : hosts) {
    if (host != bounds.reference()) {
      const int64_t correction_ns = reference->second.offset_ns - clock.offset_ns;
      const int64_t error_ns = reference->second.error_ns + clock.error_ns;
      bounds.narrow(host, correction_ns - error_ns, correction_ns + error_ns);
    }
  }
}

OffsetBounds bound_offsets(const std::vector<CallSequence>& sequences, const std::vector<CallSignature>& signatures,
                           const Cluster& cluster) {
  std::map<std::pair<CommHash, AttemptIndex>, std::vector<HostSequence>> communicators;
  std::optional<size_t> reference;
  std::vector<bool> has_calls(cluster.clock().hosts());
  for (const CallSequence& sequence : sequences) {
    const size_t host = cluster.clock().host(cluster.member(sequence.member).node_id);
    has_calls[host] = true;
    if (sequence.hash == 0 || sequence.point_to_point) {
      continue;
    }
    reference = reference.value_or(host);
    communicators[{sequence.hash, cluster.attempt_of(sequence.member)}].push_back({&sequence, host});
  }
  OffsetBounds bounds(cluster.clock().hosts(), reference.value_or(0), span_of(sequences));
  for (size_t host = 0; host < has_calls.size(); ++host) {
    if (has_calls[host]) {
      bounds.add_host(host);
    }
  }
  for (const auto& [communicator, members] : communicators) {
    add_communicator(members, signatures, bounds);
  }
  return bounds;
}

}  // namespace stalltrace::analysis
