// SPDX-License-Identifier: Apache-2.0
// Who waited for whom in a window, from both ends of the connections, or of NCCL's transfers: an edge from the rank
// that waits to the rank it waits for. Its sink is where the time went: a rank, or a link that holds what was sent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/evidence/evidence.h"

namespace stalltrace::analysis {

enum class WaitReason : uint8_t {
  kSenderBehind,    // nothing in flight, nothing unread: the receiver waits for the sender to send
  kReceiverBehind,  // data piles up unread, or the window is closed: the sender waits for the receiver to read
  kLoss,            // data in flight that the sender repeats: both wait for the link
  kInFlight,        // by NCCL's steps, data was handed over and has not arrived: the receiver waits for the link
  kUndecided,       // by NCCL's steps, the receiver waits, for the sender or for the link
};
std::string_view to_text(WaitReason reason);

struct WaitEdge {
  MemberIndex waiter = kNoMember;
  MemberIndex awaited = kNoMember;
  WaitReason reason = WaitReason::kSenderBehind;
  FlowIndex flow = kNoFlow;  // none where steps report it
  int64_t samples = 0;       // how often it was seen
  int64_t covered_ns = 0;    // by steps: for how long
};

struct WaitGraph {
  std::vector<WaitEdge> edges;
  std::vector<MemberIndex> sinks;  // ranks that others wait for and that wait for nobody
  std::vector<WaitEdge> links;     // kInFlight: the wait ends at the link
  bool deadlock = false;           // edges, all decided, but no sink and no link: a cycle
};

WaitGraph build_wait_graph(const Cluster& cluster, const Flows& flows, const EvidenceStore& evidence,
                           const std::vector<MemberIndex>& members, Interval window);

}  // namespace stalltrace::analysis
