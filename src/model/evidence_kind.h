// SPDX-License-Identifier: Apache-2.0
// The evidence kinds that a node can record. A kernel may lack one; the recording then lists it, and no verdict takes
// the absence of such evidence for the absence of the event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace {

enum class EvidenceKind : uint8_t {
  kCalls,
  kTransferMarks,
  kThreadWaits,
  kRunQueue,
  kThreadStarts,
  kProcessExits,
  kThreadListing,
  kOpenConnections,
  kTransfers,
  kRetransmits,
  kCongestionStates,
  kResetsSent,
  kResetsReceived,
  kSocketErrors,
  kConnects,
  kHostDrops,
  kOutOfMemoryKills,
  kPythonExceptions,
};

/// The oldest kernel that can be traced.
inline constexpr std::string_view kOldestTraced = "5.10";

struct EvidenceKindInfo {
  EvidenceKind kind;
  std::string_view key;    // in recordings and JSON
  std::string_view title;  // for people
  /// The first mainline kernel that gives it in full ("6.3"), of those that can be traced.
  std::string_view since;
};

/// All kinds, in enumeration order.
std::span<const EvidenceKindInfo> evidence_kinds();
const EvidenceKindInfo& info_of(EvidenceKind kind);

/// A recording's list of kinds: "socket_errors host_drops". Keys that this version does not know are skipped.
std::string keys_of(std::span<const EvidenceKind> kinds);
std::vector<EvidenceKind> kinds_of_keys(std::string_view keys);

}  // namespace stalltrace
