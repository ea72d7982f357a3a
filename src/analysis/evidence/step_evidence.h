// SPDX-License-Identifier: Apache-2.0
// Per link, which side waited, from the steps of NCCL's proxy operations. Chunks have the same numbers at both ends.
// While a receiver waits for chunk k, its sender has not reached k (the sender is behind), or has passed k (the chunk
// is in flight), or waits for room at the receiver. This holds on every transport that NCCL's proxy drives: TCP,
// InfiniBand, RoCE. All times are on the common clock.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "analysis/intervals.h"
#include "analysis/timeline/cluster.h"

namespace stalltrace::analysis {

enum class LinkWaitKind : uint8_t {
  kSenderBehind,    // the receiver waits for a chunk that the sender has not reached
  kReceiverBehind,  // the sender has no room to send
  kInFlight,        // the chunk was handed over and has not arrived
  kUndecided,       // the receiver waits for the sender or for the link
};

/// The time of one directed link.
struct LinkWait {
  MemberIndex src = kNoMember;
  MemberIndex dst = kNoMember;
  LinkWaitKind kind = LinkWaitKind::kSenderBehind;
  int64_t covered_ns = 0;
  int64_t waits = 0;  // number of waits that it consists of
};

class StepEvidence {
 public:
  /// Keeps rows that overlap `windows`.
  static Result<StepEvidence> load(EventSource& source, const Cluster& cluster, const IntervalSet& windows);

  [[nodiscard]] bool empty() const { return links_.empty(); }
  /// Rows left out because of the limit.
  [[nodiscard]] int64_t dropped() const { return dropped_; }
  /// The waits on links between these ranks in `window`, sorted by src, dst and kind. Channels of a link wait in
  /// parallel: their times are a union. A receiver's waits are kUndecided if the clocks of the two ends can't be
  /// compared.
  [[nodiscard]] std::vector<LinkWait> waits(const Cluster& cluster, const std::vector<MemberIndex>& members,
                                            Interval window) const;

  /// One row of `proxy_step`: one step, or all steps of an operation.
  struct Record {
    Interval time{0, 0};
    int32_t step = 0;
    uint32_t steps = 1;
    bool open = false;
    ProxyWait waits_for = ProxyWait::kNone;  // while it is open
    int64_t gpu_ns = 0;
    int64_t peer_ns = 0;
    int64_t network_ns = 0;
  };
  struct Link {
    MemberIndex src = kNoMember;
    MemberIndex dst = kNoMember;
    std::vector<Record> sends;  // by start
    std::vector<Record> receives;
    int64_t longest_ns = 0;  // longest record: bounds how far back one can begin
  };

 private:
  using Key = std::tuple<CommHash, int32_t, MemberIndex, MemberIndex>;  // communicator, channel, source, destination
  std::map<Key, Link> links_;
  int64_t dropped_ = 0;
};

}  // namespace stalltrace::analysis
