// SPDX-License-Identifier: Apache-2.0
// A finding: a stall explained. The JSON form (docs/findings.md, schema 1) has the same names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/events.h"
#include "model/time_range.h"

namespace stalltrace {

/// The causes and their names in recordings, JSON and text. A row here, one in analysis/causes/registry.cpp and the
/// cause's own file make a cause.
#define STALLTRACE_CAUSES(CAUSE)                        \
  CAUSE(kPacketLoss, "packet_loss")                     \
  CAUSE(kSlowLink, "slow_link")                         \
  CAUSE(kPartition, "partition")                        \
  CAUSE(kMtuBlackhole, "mtu_blackhole")                 \
  CAUSE(kConnectionReset, "connection_reset")           \
  CAUSE(kSlowReceiver, "slow_receiver")                 \
  CAUSE(kHostDrop, "host_drop")                         \
  CAUSE(kFabricErrors, "fabric_errors")                 \
  CAUSE(kLateRank, "late_rank")                         \
  CAUSE(kCpuContention, "cpu_contention")               \
  CAUSE(kDiskIo, "disk_io")                             \
  CAUSE(kProcessStopped, "process_stopped")             \
  CAUSE(kDeadRank, "dead_rank")                         \
  CAUSE(kMissingCollective, "missing_collective")       \
  CAUSE(kMismatchedCollective, "mismatched_collective") \
  CAUSE(kInitFailure, "init_failure")                   \
  CAUSE(kUnknown, "unknown")

enum class Cause : uint8_t {
#define STALLTRACE_ENUMERATOR(enumerator, name) enumerator,
  STALLTRACE_CAUSES(STALLTRACE_ENUMERATOR)
#undef STALLTRACE_ENUMERATOR
};
/// "packet_loss", ...
std::string_view to_text(Cause cause);
/// None for a name of no cause.
std::optional<Cause> cause_from_text(std::string_view text);

/// kWaiting: the others wait for a rank that may still come; not known to be a fault.
enum class Severity : uint8_t { kWaiting, kLow, kMedium, kHigh, kCritical };
/// "waiting", "low", "medium", "high", "critical"
std::string_view to_text(Severity severity);
std::optional<Severity> severity_from_text(std::string_view text);

struct Culprit {
  std::string node;  // empty: not known, as of a rank that no recorded node has
  std::optional<int32_t> rank;
  int32_t pid = 0;  // 0: no process of it was recorded
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
  bool ended_job = false;            // the job ended in it: what it cost before means little
  double stall_ms = 0;               // time the job lost: union of the stalled time of the affected instances
  TimeRange window;
  std::string summary;
  std::vector<Evidence> evidence;
  std::string remedy;
  std::optional<int64_t> attempt;      // of the job, from 1: Report::attempts
  std::vector<TimeRange> lost;         // the stalled time of each stall, by its end; neither printed nor stored
  std::optional<int64_t> detected_ns;  // live: when it was first reported
  std::optional<int64_t> ended_ns;     // live: when it was reported to be over
};

/// Processes that were one job, alive together. A job that is started again, and another job, is another one.
struct JobAttempt {
  int64_t number = 0;  // from 1, by when the first process started
  int64_t ranks = 0;   // processes
  int64_t nodes = 0;
  TimeRange range;  // from its first process's start, as far as it is known, to the last one's end or the recording's
  std::string end;  // how it ended: "rank 1 (node1, pid 4711) ended with exit code 1 before the others"
  std::optional<Culprit> ended_by;                    // who failed first
  std::vector<std::pair<NodeId, int32_t>> processes;  // by node and pid
};

/// What explain finds in a recording.
struct Report {
  static constexpr int kSchema = 1;
  bool healthy = true;  // no findings; means nothing where nothing was judged
  int64_t nodes = 0;
  int64_t ranks = 0;
  std::vector<JobAttempt> attempts;
  TimeRange range;  // of the recordings, from the first arrival: the zero of times written with "+"
  int64_t collectives = 0;
  TimeRange judged_range;  // the part of `range` that was asked for
  int64_t judged = 0;      // collectives in it
  uint64_t lost_events = 0;
  std::vector<Loss> losses;
  std::map<NodeId, std::string> node_names;  // of the nodes in `losses`
  std::vector<Finding> findings;             // what ended the job, then most expensive first
  int64_t failed_ranks = 0;                  // of those that no finding is about: their processes failed
  std::vector<std::string> notes;  // what a reader must know to trust the above: clock error, missing ranks, ...
  std::string unrecorded_ranks;    // of these, the one on the first communicator that lacks ranks; empty: none does
};

}  // namespace stalltrace
