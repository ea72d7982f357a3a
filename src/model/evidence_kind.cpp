// SPDX-License-Identifier: Apache-2.0
#include "model/evidence_kind.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace stalltrace {
namespace {

using enum EvidenceKind;

constexpr std::array kKinds{
    EvidenceKindInfo{kCalls, "calls", "calls of the collective library"},
    EvidenceKindInfo{kTransferMarks, "transfer_marks", "which connection carries which transfer of NCCL's"},
    EvidenceKindInfo{kThreadWaits, "thread_waits", "what threads wait for, and who runs instead"},
    EvidenceKindInfo{kRunQueue, "run_queue", "waiting for a CPU after a wake-up"},
    EvidenceKindInfo{kThreadStarts, "thread_starts", "threads and child processes from their start"},
    EvidenceKindInfo{kProcessExits, "process_exits", "exits of processes"},
    EvidenceKindInfo{kThreadListing, "thread_listing", "threads that were there before, waits that have not ended"},
    EvidenceKindInfo{kOpenConnections, "open_connections", "connections opened before tracing, samples of silent ones"},
    EvidenceKindInfo{kTransfers, "transfers", "bytes sent and received, owners of connections"},
    EvidenceKindInfo{kRetransmits, "retransmits", "TCP retransmissions"},
    EvidenceKindInfo{kCongestionStates, "congestion_states", "TCP congestion states"},
    EvidenceKindInfo{kResetsSent, "resets_sent", "TCP resets sent"},
    EvidenceKindInfo{kResetsReceived, "resets_received", "TCP resets received"},
    EvidenceKindInfo{kSocketErrors, "socket_errors", "errors of sockets"},
    EvidenceKindInfo{kConnects, "connects", "connects and closes of connections"},
    EvidenceKindInfo{kHostDrops, "host_drops", "packets dropped inside the host"},
    EvidenceKindInfo{kOutOfMemoryKills, "oom_kills", "processes killed for lack of memory"},
};

constexpr bool in_order() {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (static_cast<size_t>(kKinds[i].kind) != i) {
      return false;
    }
  }
  return true;
}
static_assert(in_order());

}  // namespace

std::span<const EvidenceKindInfo> evidence_kinds() { return kKinds; }
const EvidenceKindInfo& info_of(EvidenceKind kind) { return kKinds[static_cast<size_t>(kind)]; }

std::string keys_of(std::span<const EvidenceKind> kinds) {
  std::string keys;
  for (const EvidenceKind kind : kinds) {
    keys += (keys.empty() ? "" : " ") + std::string(info_of(kind).key);
  }
  return keys;
}

std::vector<EvidenceKind> kinds_of_keys(std::string_view keys) {
  std::vector<EvidenceKind> kinds;
  for (const std::string_view key : split(keys, ' ')) {
    const auto* known = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& info) { return info.key == key; });
    if (known != kKinds.end()) {
      kinds.push_back(known->kind);
    }
  }
  return kinds;
}

}  // namespace stalltrace
