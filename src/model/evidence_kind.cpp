// SPDX-License-Identifier: Apache-2.0
#include "model/evidence_kind.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace stalltrace {
namespace {

using enum EvidenceKind;

constexpr std::array kKinds{
    EvidenceKindInfo{kCalls, "calls", "calls of the collective library", "5.12"},
    EvidenceKindInfo{kTransferMarks, "transfer_marks", "which connection carries which transfer of NCCL's",
                     kOldestTraced},
    EvidenceKindInfo{kThreadWaits, "thread_waits", "what threads wait for, and who runs instead", kOldestTraced},
    EvidenceKindInfo{kRunQueue, "run_queue", "waiting for a CPU after a wake-up", kOldestTraced},
    EvidenceKindInfo{kThreadStarts, "thread_starts", "threads and child processes from their start", kOldestTraced},
    EvidenceKindInfo{kProcessExits, "process_exits", "exits of processes", kOldestTraced},
    EvidenceKindInfo{kThreadListing, "thread_listing", "threads that were there before, waits that have not ended",
                     kOldestTraced},
    EvidenceKindInfo{kOpenConnections, "open_connections", "connections opened before tracing, samples of silent ones",
                     kOldestTraced},
    EvidenceKindInfo{kTransfers, "transfers", "bytes sent and received, owners of connections", "6.3"},
    EvidenceKindInfo{kRetransmits, "retransmits", "TCP retransmissions", kOldestTraced},
    EvidenceKindInfo{kCongestionStates, "congestion_states", "TCP congestion states", "5.19"},
    EvidenceKindInfo{kResetsSent, "resets_sent", "TCP resets sent", kOldestTraced},
    EvidenceKindInfo{kResetsReceived, "resets_received", "TCP resets received", kOldestTraced},
    EvidenceKindInfo{kSocketErrors, "socket_errors", "errors of sockets", "5.14"},
    EvidenceKindInfo{kConnects, "connects", "connects and closes of connections", kOldestTraced},
    EvidenceKindInfo{kHostDrops, "host_drops", "packets dropped inside the host", "5.17"},
    EvidenceKindInfo{kOutOfMemoryKills, "oom_kills", "processes killed for lack of memory", kOldestTraced},
    EvidenceKindInfo{kPythonExceptions, "python_exceptions", "exceptions that end Python programs", kOldestTraced},
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
