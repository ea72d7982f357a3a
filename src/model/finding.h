// SPDX-License-Identifier: Apache-2.0
// A finding: an explained stall. The JSON form (docs/findings.md, schema 1) has the same names.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/events.h"
#include "model/node_clock.h"
#include "model/time_range.h"

namespace stalltrace {

/// The causes and their names in recordings, JSON and text. A cause consists of a row here, a row in
/// analysis/causes/registry.cpp and its own file.
#define STALLTRACE_CAUSES(CAUSE)                        \
  CAUSE(kPacketLoss, "packet_loss")                     \
  CAUSE(kSlowLink, "slow_link")                         \
  CAUSE(kPartition, "partition")                        \
  CAUSE(kMtuBlackhole, "mtu_blackhole")                 \
  CAUSE(kConnectionReset, "connection_reset")           \
  CAUSE(kSlowReceiver, "slow_receiver")                 \
  CAUSE(kHostDrop, "host_drop")                         \
  CAUSE(kFabricErrors, "fabric_errors")                 \
  CAUSE(kCongestion, "congestion")                      \
  CAUSE(kDeviceError, "device_error")                   \
  CAUSE(kLateRank, "late_rank")                         \
  CAUSE(kSlowDevice, "slow_device")                     \
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
/// None if no cause has this name.
std::optional<Cause> cause_from_text(std::string_view text);

/// kWaiting: the others wait for a rank that may still come; this is not known to be a fault.
enum class Severity : uint8_t { kWaiting, kLow, kMedium, kHigh, kCritical };
/// All of them, in ascending order.
inline constexpr std::array kSeverities{Severity::kWaiting, Severity::kLow, Severity::kMedium, Severity::kHigh,
                                        Severity::kCritical};
/// "waiting", "low", "medium", "high", "critical"
std::string_view to_text(Severity severity);
std::optional<Severity> severity_from_text(std::string_view text);

struct Culprit {
  std::string node;  // empty: unknown, as for a rank that is on no recorded node
  std::optional<int32_t> rank;
  int32_t pid = 0;  // 0: no process of the rank was recorded
};

/// Sender rank and receiver rank.
struct LinkEndpoints {
  std::optional<int32_t> src_rank;
  std::optional<int32_t> dst_rank;
  std::optional<Endpoint> src;
  std::optional<Endpoint> dst;
};

/// Evidence::kind where the finding's link was seen from one end alone: its packets may be lost in either direction.
inline constexpr std::string_view kDirectionNotKnown = "direction_not_known";

struct Evidence {
  std::string kind;  // a tracepoint, a table or a rule that the reader can search for
  int64_t count = 0;
  std::string text;
  std::vector<EventId> events;  // a few examples
};

/// A call in a stalled instance, by the fields of its row in `collective`.
struct StalledCall {
  NodeId node_id = 0;
  int32_t pid = 0;
  CommHash comm_id_hash = 0;
  std::optional<int64_t> seq;  // none: the communicator is not known, its calls were lined up by order and time
  /// On its node's own clock. The analysis may see it arrive later than its row: when what was queued before it ended.
  int64_t arrival_ns = 0;
  Operation op = Operation::kAllReduce;
};

/// What was judged by another run, which was right (`explain --like`).
struct TimesByReference {
  int64_t usual_ns = 0;    // there, of a transfer or a step
  int64_t took_ns = 0;     // here: the middle one of the finding's stalls with that usual duration
  int64_t longest_ns = 0;  // of the same
};

/// One instance that a finding explains.
struct StalledInstance {
  TimeRange waited;                // when the job waited
  std::vector<StalledCall> calls;  // by arrival
};

struct Finding {
  Cause cause = Cause::kUnknown;
  Severity severity = Severity::kMedium;
  double confidence = 0;  // 0..1
  std::optional<Culprit> culprit;
  std::optional<LinkEndpoints> link;
  CommHash comm_id_hash = 0;
  Operation op = Operation::kAllReduce;
  int64_t collectives_affected = 0;  // instances
  bool ended_job = false;            // the job ended in it: its earlier cost then means little
  double stall_ms = 0;               // time that the job lost: union of the stalled times of the affected instances
  /// False: the evidence cannot show what it cost, such as a kernel log, and a `stall_ms` of 0 means unknown.
  bool cost_known = true;
  TimeRange window;
  std::string summary;
  std::vector<Evidence> evidence;
  std::string remedy;
  std::optional<TimesByReference> like;  // of the longest stall; none: it is compared with its own run alone
  std::optional<int64_t> attempt;        // of the job, from 1: Report::attempts
  /// When the job waited in each single stall, sorted by end: `stall_ms` is the length of their union, and the longest
  /// is where to look. Empty where no single stalls are known: of logs and dumps, in live findings, which outlive their
  /// rounds, and in findings that were read from a recording. JSON and recordings have the union only.
  std::vector<TimeRange> lost;
  std::vector<StalledInstance> stalled;  // most expensive first; with ExplainOptions::stalled_calls; not stored
  std::optional<int64_t> detected_ns;    // live: when it was first reported
  std::optional<int64_t> ended_ns;       // live: when its end was reported
};

/// Processes that were one job and alive together. A restarted job is another attempt, and so is another job.
struct JobAttempt {
  int64_t number = 0;  // from 1, in order of the start of the first process
  int64_t ranks = 0;   // processes
  int64_t nodes = 0;
  TimeRange range;  // from its first process's start, if known, to the last process's end or the recording's
  std::string end;  // how it ended: "rank 1 (node1, pid 4711) ended with exit code 1 before the others"
  std::optional<Culprit> ended_by;                    // the rank that failed first
  std::vector<std::pair<NodeId, int32_t>> processes;  // by node and pid
};

/// A run that was right, whose usual durations are those to compare with.
struct ReferenceRun {
  std::vector<std::string> files;
  int64_t nodes = 0;
  int64_t ranks = 0;
  int64_t collectives = 0;
  int64_t comparable = 0;      // instances of the judged run that have comparable ones there ...
  int64_t not_comparable = 0;  // ... and others
};

/// The clock of one node, compared with that of the reference.
struct ComparedClock {
  std::string node;
  std::string reference;
  int64_t offset_ns = 0;            // its clock minus the reference's, in the middle of the job
  double drift_ppm = 0;             // by which that grows
  std::optional<int64_t> error_ns;  // of the offset, all through the job; none: nothing bounds it
  bool comparable = false;          // the error allows verdicts on which of their ranks was late
  ClockSource source = ClockSource::kUnknown;
};

/// One run of a benchmark whose output was given.
struct BenchmarkSummary {
  std::string name;  // "all_reduce_perf"; "a benchmark" where the output does not say which
  std::string file;
  int64_t line = 0;    // of its beginning; 0: the file has no lines
  int32_t nranks = 0;  // 0: not stated
  std::vector<std::string> hosts;
  int64_t results = 0;
  int64_t smallest_bytes = 0;
  int64_t largest_bytes = 0;
  double peak_busbw_gbs = 0;
  int64_t peak_bytes = 0;
  int64_t wrong_results = 0;  // results with wrong elements
  bool ended = false;
  bool failed = false;               // wrong results, or it reported a failure
  std::vector<std::string> remarks;  // what the numbers show: failures first, outliers, the comparison with other runs
};

/// One process's part in a profiler's trace (TraceProfile), and its comparison with those of the other ranks.
struct ProfileSummary {
  std::string file;
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  std::string backend;
  bool on_device = false;
  int64_t steps = 0;
  int64_t duration_ns = 0;
  int64_t compute_ns = 0;
  int64_t communication_ns = 0;
  int64_t exposed_ns = 0;  // communication while nothing was computed
  int64_t idle_ns = 0;
  std::vector<TraceCollective> collectives;  // those that cost most, by exposed time
  int64_t more_collectives = 0;
  std::vector<std::string> remarks;
};

/// One direction of a TCP connection of a packet capture that had trouble.
struct FlowSummary {
  PacketFlow flow;
  std::optional<int32_t> src_rank;  // where a recording has the connection
  std::optional<int32_t> dst_rank;
  std::vector<std::string> remarks;
};

struct CaptureSummary {
  PacketCapture capture;
  std::vector<FlowSummary> flows;  // with trouble, the worst first
  int64_t more_flows = 0;
  std::vector<std::string> remarks;
};

/// The result of explain.
struct Report {
  static constexpr int kSchema = 1;
  bool healthy = true;  // no findings: health() says whether that means anything
  int64_t nodes = 0;
  int64_t ranks = 0;
  std::vector<JobAttempt> attempts;
  TimeRange range;  // of the recordings, from the first arrival: the zero of times written with "+"
  int64_t collectives = 0;
  TimeRange judged_range;  // the requested part of `range`
  int64_t judged = 0;      // number of collectives in it
  uint64_t lost_events = 0;
  std::vector<Loss> losses;
  std::map<NodeId, std::string> node_names;  // names of the nodes in `losses`
  std::vector<Finding> findings;             // those that ended a job, then most expensive first
  int64_t failed_ranks = 0;                  // ranks whose processes failed although no finding is about them
  std::vector<std::string> notes;            // limits of the findings: clock error, missing ranks, ...
  bool ends_unknown = false;  // calls have no ends, as in a log: without findings, nothing is known to be healthy
  bool has_others_evidence = false;  // logs, dumps or reports that others made: without a collective they may show much
  std::vector<ComparedClock> clocks;         // of several nodes; empty with one
  std::vector<BenchmarkSummary> benchmarks;  // runs of benchmarks whose output was given
  std::vector<ProfileSummary> profiles;      // traces of profilers that were given, by rank
  std::vector<CaptureSummary> captures;      // packet captures that were given
  std::optional<ReferenceRun> like;          // none: no run that was right was given
  std::string unrecorded_ranks;  // the note on the first communicator with missing ranks; empty: none has any

  std::string unplaced_waits;  // the note on waits for a rank that the hosts' clocks do not show; empty: none
  std::string unseen_graphs;   // the note on CUDA graphs whose collectives were not seen; empty: none

  /// False with findings, or if a benchmark failed. None without any if nothing was judged, ends are unknown, ranks
  /// were not recorded, clocks do not show who was waited for, graphs ran collectives unseen, or nothing could be
  /// compared with the run that was to be compared with: the job's health is then not known.
  [[nodiscard]] std::optional<bool> health() const;
};

}  // namespace stalltrace
