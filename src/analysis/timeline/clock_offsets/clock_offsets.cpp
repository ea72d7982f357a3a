// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/clock_offsets/clock_offsets.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace stalltrace::analysis {
namespace {

struct HostSequence {
  const CallSequence* sequence;
  size_t host;
};

using Communicators = std::map<std::pair<CommHash, AttemptIndex>, std::vector<HostSequence>>;

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
  // A rank may synchronise with its device, or return from a blocking call, long after that was done.
  if (call.completion == Completion::kProfiler) {
    edge.first_reported_end_ns = std::min(edge.first_reported_end_ns, call.end_ns());
  }
}

/// When one host's ranks were in calls with those of others. Clocks of others may be seconds off.
class SharedSpan {
 public:
  explicit SharedSpan(size_t host) : host_(host) {}

  /// Adds the sequences of one communicator, or of two ranks.
  void add(std::span<const HostSequence> together) {
    if (std::ranges::all_of(together, [&](const HostSequence& one) { return one.host == together.front().host; })) {
      return;  // they show nothing of another clock, and may be of another job
    }
    std::ranges::for_each(together, [this](const HostSequence& one) { add_calls(one); });
  }
  void add_calls(const HostSequence& one) {
    for (const Call& call : one.sequence->calls) {
      if (one.host == host_ && call.present) {
        span_.from_ns = std::min(span_.from_ns, call.arrival_ns);
        span_.to_ns = std::max(span_.to_ns, (call.end_ns() == kForever ? call.arrival_ns : call.end_ns()) + 1);
      }
    }
  }
  [[nodiscard]] TimeRange found() const { return span_.from_ns < span_.to_ns ? span_ : TimeRange{0, 0}; }

 private:
  size_t host_;
  TimeRange span_{kForever, 0};
};

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

/// Sends from one rank to another, or their Recvs.
struct TransferSequence {
  uint64_t group_key;
  HostSequence at;
  bool is_whole;  // it surely begins with the first one of its communicator
};

/// NCCL and RCCL match the Sends and Recvs of two ranks by the order of their calls; MPI does by tags, which are not
/// recorded.
bool matches_by_number(const CallSequence& sequence) {
  return sequence.hash != 0 && sequence.comm_rank &&
         (sequence.library == Library::kNccl || sequence.library == Library::kRccl);
}

/// True if the call was done at its end_ns(). A synchronisation that returned later is as good. The last byte on a
/// rank's sockets may be that of another call, and the end of a communicator that failed is not that of its calls.
bool was_done(const CallSequence& sequence, const Call& call) {
  return (call.completion == Completion::kProfiler || call.completion == Completion::kSync ||
          call.completion == Completion::kCall) &&
         call.end_ns() < sequence.abort_ns;
}

/// Both sizes are known and differ: NCCL does not allow that of a Send and its Recv.
bool differ_in_size(const CallSignature& a, const CallSignature& b) {
  return a.bytes > 0 && b.bytes > 0 && a.bytes != b.bytes;
}

/// The transfers of two ranks; none if the calls with equal numbers are no Sends with their Recvs.
std::vector<Transfer> transfers_of(const CallSequence& sends, const CallSequence& recvs,
                                   const std::vector<CallSignature>& signatures) {
  std::vector<Transfer> transfers;
  const int64_t end = std::min(recvs.end_number(), sends.end_number());
  for (int64_t number = std::max(recvs.first_number(), sends.first_number()); number < end; ++number) {
    const Call* recv = recvs.call_at(number);
    const Call* send = sends.call_at(number);
    if (recv == nullptr || send == nullptr) {
      continue;
    }
    if (differ_in_size(signatures[send->signature], signatures[recv->signature])) {
      return {};
    }
    if (was_done(recvs, *recv)) {
      transfers.push_back({sends.kernel_start_ns(number).value_or(send->arrival_ns), recv->end_ns()});
    }
  }
  return transfers;
}

/// Adds the transfers of one group: those of two ranks, if their numbers are surely those of one order. A rank has
/// several sequences where numbers jumped, and a group several pairs where two processes claim to be one rank.
void add_transfers(std::span<const TransferSequence> group, const std::vector<CallSignature>& signatures,
                   OffsetBounds& bounds) {
  if (group.size() != 2 || !group[0].is_whole || !group[1].is_whole ||
      group[0].at.sequence->receives == group[1].at.sequence->receives || group[0].at.host == group[1].at.host) {
    return;
  }
  const HostSequence& sends = group[group[0].at.sequence->receives ? 1 : 0].at;
  const HostSequence& recvs = group[group[0].at.sequence->receives ? 0 : 1].at;
  bounds.add_transfers(sends.host, recvs.host, transfers_of(*sends.sequence, *recvs.sequence, signatures));
}

/// Calls `visit` with the sequences of each group. They have to be sorted by group.
template <class Visit>
void for_each_group(std::span<const TransferSequence> sequences, Visit visit) {
  for (auto first = sequences.begin(); first != sequences.end();) {
    const auto last = std::find_if(first, sequences.end(),
                                   [&](const TransferSequence& one) { return one.group_key != first->group_key; });
    visit(std::span(first, last));
    first = last;
  }
}

/// When the host's ranks were in calls that may bound its clock against others; in any, if there are none: what was
/// measured or reported of clocks may bound it. `all`: the sequences of all hosts.
TimeRange span_of(size_t host, const Communicators& communicators, std::span<const TransferSequence> transfers,
                  std::span<const HostSequence> all) {
  SharedSpan span(host);
  for (const auto& [communicator, members] : communicators) {
    span.add(members);
  }
  for_each_group(transfers, [&](std::span<const TransferSequence> group) {
    std::vector<HostSequence> pair;
    std::ranges::transform(group, std::back_inserter(pair), &TransferSequence::at);
    span.add(pair);
  });
  if (span.found().length() == 0) {
    std::ranges::for_each(all, [&](const HostSequence& one) { span.add_calls(one); });
  }
  return span.found();
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
                           const Cluster& cluster, const GroupKey& group_key, const CountedFromStart& counted) {
  Communicators communicators;
  std::optional<size_t> reference;
  std::vector<TransferSequence> transfers;
  std::vector<HostSequence> all;
  std::vector<bool> has_calls(cluster.clock().hosts());
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    const CallSequence& sequence = sequences[i];
    const size_t host = cluster.clock().host(cluster.member(sequence.member).node_id);
    has_calls[host] = true;
    all.push_back({&sequence, host});
    if (sequence.point_to_point) {
      if (matches_by_number(sequence)) {
        transfers.push_back({group_key(i), {&sequence, host}, sequence.first_seq == 0 && counted(i)});
      }
      continue;
    }
    if (sequence.hash == 0) {
      continue;
    }
    reference = reference.value_or(host);
    communicators[{sequence.hash, cluster.attempt_of(sequence.member)}].push_back({&sequence, host});
  }
  const auto whole = std::ranges::find_if(transfers, &TransferSequence::is_whole);
  if (!reference && whole != transfers.end()) {
    reference = whole->at.host;
  }
  if (!reference && !all.empty()) {
    reference = all.front().host;
  }
  std::ranges::stable_sort(transfers, {}, &TransferSequence::group_key);
  OffsetBounds bounds(cluster.clock().hosts(), reference.value_or(0),
                      span_of(reference.value_or(0), communicators, transfers, all));
  for (size_t host = 0; host < has_calls.size(); ++host) {
    if (has_calls[host]) {
      bounds.add_host(host);
    }
  }
  for (const auto& [communicator, members] : communicators) {
    add_communicator(members, signatures, bounds);
  }
  // A transfer that contradicts them is no reason to leave them out.
  narrow_by_measured_clocks(cluster, bounds);
  narrow_by_kernel_clocks(cluster.kernel_clocks(), bounds);
  for_each_group(transfers, [&](std::span<const TransferSequence> group) { add_transfers(group, signatures, bounds); });
  bounds.narrow_by_transfers();
  return bounds;
}

}  // namespace stalltrace::analysis
