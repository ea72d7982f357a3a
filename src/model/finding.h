// SPDX-License-Identifier: Apache-2.0
// A finding: a stall explained. The JSON form (docs/findings.md, schema 1) has the same names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/events.h"
#include "model/time_range.h"

namespace stalltrace {

enum class Cause : uint8_t {
  kPacketLoss,
  kSlowLink,
  kPartition,
  kMtuBlackhole,
  kConnectionReset,
  kSlowReceiver,
  kHostDrop,
  kFabricErrors,
  kLateRank,
  kCpuContention,
  kDiskIo,
  kProcessStopped,
  kDeadRank,
  kMissingCollective,
  kMismatchedCollective,
  kInitFailure,
  kUnknown,
};
inline constexpr int kCauseCount = static_cast<int>(Cause::kUnknown) + 1;
/// "packet_loss", ...
std::string_view to_text(Cause cause);
std::optional<Cause> cause_from_text(std::string_view text);

enum class Severity : uint8_t { kLow, kMedium, kHigh, kCritical };
/// "low", "medium", "high", "critical"
std::string_view to_text(Severity severity);
std::optional<Severity> severity_from_text(std::string_view text);

struct Culprit {
  std::string node;
  std::optional<int32_t> rank;
  int32_t pid = 0;
};

/// Sender rank to receiver rank.
struct LinkPlace {
  std::optional<int32_t> src_rank;
  std::optional<int32_t> dst_rank;
  std::optional<Endpoint> src;
  std::optional<Endpoint> dst;
};

struct Evidence {
  std::string kind;  // a tracepoint, a table, a rule: what a reader would search for
  int64_t count = 0;
  std::string text;
  std::vector<EventId> events;  // a few, to look at
};

struct Finding {
  Cause cause = Cause::kUnknown;
  Severity severity = Severity::kMedium;
  double confidence = 0;  // 0..1
  std::optional<Culprit> culprit;
  std::optional<LinkPlace> link;
  CommHash comm_id_hash = 0;
  Operation op = Operation::kAllReduce;
  int64_t collectives_affected = 0;  // instances
  double stall_ms = 0;               // time the job lost: union of the stalled time of the affected instances
  TimeRange window;
  std::string summary;
  std::vector<Evidence> evidence;
  std::string remedy;
  std::vector<TimeRange> lost;         // the stalled time of each stall, by its end; neither printed nor stored
  std::optional<int64_t> detected_ns;  // live: when it was first told
  std::optional<int64_t> ended_ns;     // live: when it was told to be over
};

/// What explain says of a recording.
struct Report {
  static constexpr int kSchema = 1;
  bool healthy = true;  // no findings; means nothing where nothing was judged
  int64_t nodes = 0;
  int64_t ranks = 0;
  TimeRange range;  // of the recordings, from the first arrival: the zero of times written with "+"
  int64_t collectives = 0;
  TimeRange judged_range;  // the part of `range` that was asked for
  int64_t judged = 0;      // collectives in it
  uint64_t lost_events = 0;
  std::vector<Loss> losses;
  std::vector<Finding> findings;   // dearest first
  std::vector<std::string> notes;  // what a reader must know to trust the above: clock error, missing ranks, ...
  std::string unrecorded_ranks;    // of these, the one on the first communicator that lacks ranks; empty: none does
};

}  // namespace stalltrace
