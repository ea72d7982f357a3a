// SPDX-License-Identifier: Apache-2.0
// Which rank waited for which in a window, from both ends of the connections or from NCCL's steps: an edge points from
// the waiting rank to the rank it waits for. The time went to the graph's sink: a rank, or a link that held sent data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/evidence/evidence.h"

namespace stalltrace::analysis {

enum class WaitReason : uint8_t {
  kSenderBehind,    // nothing in flight or unread: the receiver waits for the sender
  kReceiverBehind,  // unread data piles up, or the window is closed: the sender waits for the receiver
  kLoss,            // data in flight is retransmitted: both wait for the link
  kInFlight,        // by NCCL's steps, handed-over data has not arrived: the receiver waits for the link
  kUndecided,       // by NCCL's steps, the receiver waits for the sender or for the link
};
std::string_view to_text(WaitReason reason);

struct WaitEdge {
  MemberIndex waiter = kNoMember;
  MemberIndex awaited = kNoMember;
  WaitReason reason = WaitReason::kSenderBehind;
  FlowIndex flow = kNoFlow;  // none for an edge from steps
  int64_t samples = 0;       // number of samples that show it
  int64_t covered_ns = 0;    // for an edge from steps: its time
};

struct WaitGraph {
  std::vector<WaitEdge> edges;
  std::vector<MemberIndex> sinks;  // ranks that others wait for and that wait for no rank
  std::vector<WaitEdge> links;     // kInFlight: the wait ends at the link
  bool deadlock = false;           // edges, all decided, but no sink and no link: a cycle
};

/// The waits between `members` in `window`, which is in common time; empty without members. Edges by connections come
/// first, by flow, then those by steps, by source and destination; sinks are ascending. An edge needs kEdgeShare of the
/// samples of its connection, or of the window for steps. `counts`: which connections do; empty: all that carry
/// collectives. Takes time for the flows of the members, and for each of their samples inside the window a binary
/// search in those of the other end.
WaitGraph build_wait_graph(const Cluster& cluster, const Flows& flows, const EvidenceStore& evidence,
                           const std::vector<MemberIndex>& members, Interval window,
                           const std::function<bool(const Flow&)>& counts = {});

}  // namespace stalltrace::analysis
