// SPDX-License-Identifier: Apache-2.0
// What the steps of NCCL's proxy operations say of each link: which side of it waited for what. Chunks are numbered
// alike on both ends. While a receiver waits for chunk k, its sender has not come to k (the sender is behind), or is
// beyond k (the chunk was handed over, and is under way), or waits for the receiver's room. This holds on any transport
// that NCCL's proxy drives: TCP, InfiniBand, RoCE. All times are on the common clock.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "analysis/intervals.h"
#include "analysis/timeline/cluster.h"

namespace stalltrace::analysis {

enum class LinkWaitKind : uint8_t {
  kSenderBehind,    // the receiver waits for a chunk that the sender has not come to
  kReceiverBehind,  // the sender has no room to send into
  kInFlight,        // the chunk was handed over and has not arrived
  kUndecided,       // the receiver waits, for the sender or for the link
};

/// How one directed link spent its time.
struct LinkWait {
  MemberIndex src = kNoMember;
  MemberIndex dst = kNoMember;
  LinkWaitKind kind = LinkWaitKind::kSenderBehind;
  int64_t covered_ns = 0;
  int64_t waits = 0;  // how many made it up
};

class StepEvidence {
 public:
  /// Keeps what lies in `windows`.
  static Result<StepEvidence> load(EventSource& source, const Cluster& cluster, const IntervalSet& windows);

  [[nodiscard]] bool empty() const { return links_.empty(); }
  /// Rows left out because there were too many.
  [[nodiscard]] int64_t dropped() const { return dropped_; }
  /// What links between these ranks waited for in `window`, in order of src, dst and kind. Channels of a link wait side
  /// by side: their times are a union. Between ends whose clocks can't be compared nothing is decided.
  [[nodiscard]] std::vector<LinkWait> waits(const Cluster& cluster, const std::vector<MemberIndex>& members,
                                            Interval window) const;

  /// One row of `proxy_step`: one step, or an operation's.
  struct Record {
    Interval time{0, 0};
    int32_t step = 0;
    uint32_t steps = 1;
    bool open = false;
    ProxyWait waits_for = ProxyWait::kNone;  // while open
    int64_t gpu_ns = 0;
    int64_t peer_ns = 0;
    int64_t network_ns = 0;
  };
  struct Link {
    MemberIndex src = kNoMember;
    MemberIndex dst = kNoMember;
    std::vector<Record> sends;  // by start
    std::vector<Record> receives;
    int64_t longest_ns = 0;  // of any record: how far back one can reach
  };

 private:
  using Key = std::tuple<CommHash, int32_t, MemberIndex, MemberIndex>;  // communicator, channel, source, destination
  std::map<Key, Link> links_;
  int64_t dropped_ = 0;
};

}  // namespace stalltrace::analysis
