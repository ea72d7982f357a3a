// SPDX-License-Identifier: Apache-2.0
// Compares the findings of a draw with its truth.json: cause, location and time of every finding, its delay, and the
// cost it gives for the fault. docs/accuracy.md states the rules. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "lab/cluster/campaign/reliability.h"
#include "lab/cluster/injection/fault_table.h"
#include "lab/cluster/truth.h"
#include "model/finding.h"

namespace stalltrace::lab {

/// Grows with every change of the rules: draws that other rules scored are not counted together.
inline constexpr int kScoringRules = 4;

/// One fault in effect, from truth.json.
struct TrueFault {
  std::string cause;
  bool harmless = false;   // normal behaviour: no finding is expected
  bool catalogued = true;  // false: no cause describes it, so that silence or `unknown` is expected
  int rank = 0;
  std::optional<FaultLink> link;
  std::string direction;        // empty if the fault has none
  std::string node;             // the rank's; empty if truth.json does not say
  std::vector<int> node_ranks;  // all ranks of that node
  std::vector<int>
      src_ranks;  // of a link's fault: all ranks of its sender's node, which send over the same interface ...
  std::vector<int> dst_ranks;  // ... and all of its receiver's
  std::vector<TimeRange> intervals;
};

/// One finding.
struct ReportedFault {
  std::string cause;
  std::optional<int> culprit;  // the culprit's rank
  std::string node;            // the culprit's; empty: unknown
  std::optional<FaultLink> link;
  bool either_way = false;  // one direction of the link or the other, which is not known
  bool accuses = false;     // it has a culprit or a link, also one that is known in part
  bool waiting = false;     // its severity: it is not known to be a fault
  double confidence = 0;
  TimeRange window;
  double stall_ms = 0;
  int64_t detected_ns = 0;  // for findings reported live
};

struct TruthRead {
  std::vector<TrueFault> faults;  // those that took effect
  size_t planned = 0;             // also those that did not
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  bool completed = false;
  int ranks_per_node = 1;
};

/// ErrorKind::kCorrupt if the lab did not write the text.
Result<TruthRead> read_truth(std::string_view json);
/// `ranks_per_node`: where a finding has an address alone, it is that of the node's first rank.
Result<std::vector<ReportedFault>> read_findings(std::string_view json, int ranks_per_node = 1);
std::vector<ReportedFault> reported_faults(const Report& report);

/// A finding is about a fault if its time overlaps the fault's, or is within this of it: a timeout of TCP that doubled
/// twice, a step, and the error of the hosts' clocks.
inline constexpr int64_t kTimeSlackNs = kNsPerSecond;

/// Whether location and time are the fault's, whatever the cause. A fault on one direction of a node is that node's, or
/// that of a link where it shows.
bool locates(const ReportedFault& reported, const TrueFault& fault);
/// Whether the cause is the fault's as well.
bool names(const ReportedFault& reported, const TrueFault& fault);

enum class DrawVerdict : uint8_t {
  kRight,      // every fault is named with its location, and nothing else is reported
  kAbstained,  // nothing false is reported, but a fault is not named
  kWrong,      // something false is reported, now or live; or the run failed, and does not without the tracer
  kCostless,   // nothing false is reported, the job completed, and the fault cost less than a finding needs
  kJobFailed,  // the run failed, and without the tracer as well
};
inline constexpr size_t kDrawVerdicts = 5;
std::string_view to_text(DrawVerdict verdict);
std::optional<DrawVerdict> verdict_from_text(std::string_view text);

/// One fault, and the findings about it.
struct FaultScore {
  std::string cause;
  std::string reported;               // the cause reported in its place: its own, a wrong one, "unknown" or "nothing"
  int64_t findings = 0;               // that name it: more than one are duplicates
  std::optional<double> latency_ms;   // from its first effect until it was reported live
  std::optional<double> cost_ms;      // its cost to the job, if known
  std::optional<double> cost_share;   // the same, of the job's time without it
  std::optional<double> reported_ms;  // the finding's cost

  [[nodiscard]] int64_t duplicates() const { return findings > 1 ? findings - 1 : 0; }
};

struct DrawScore {
  DrawVerdict verdict = DrawVerdict::kJobFailed;
  std::vector<FaultScore> faults;
  std::vector<std::string> false_causes;  // of false findings, with an `unknown` that accuses whom it should not
  std::vector<std::string> live_false;    // the same for agents' reports while the job ran
  bool blames_innocent = false;           // a false finding has another location than any fault
  int64_t waiting = 0;                    // findings with that severity that name no fault: they assert none
  std::vector<Assertion> assertions;      // of findings with a cause, but the waiting and those without a location
};

/// What the faults of a draw cost the job, by its own clock.
struct TrueCost {
  double ms = 0;
  double single_ms = 0;  // of that, at once; where it is not known, all of it
};

/// The cost from which on the analysis reports a cause: one loss of `single_ns` at once, or `total_ns` that are `share`
/// of the time from its beginning to its end, or of `span_ns` (less if the job was shorter), whichever is longer.
struct CostGate {
  int64_t single_ns = 0;
  int64_t total_ns = 0;
  double share = 0;
  int64_t span_ns = 0;
};
/// Of a cause; of one that is not known, zeros. Empty: no cause has a gate.
using GateOf = std::function<CostGate(std::string_view cause)>;

/// Smaller costs, by the job's own clock, are within one TCP timeout (200 ms) and the scatter of steps.
inline constexpr double kWorthSayingMs = 250;

/// `unknown` is false without any fault, and beside one if it accuses a rank, node or link that is not at fault. `cost`
/// is compared with the gate of the fault's cause; a fault that ended the job is not costless, however little of its
/// time went before.
DrawScore score(const TruthRead& truth, const std::vector<ReportedFault>& reported, std::optional<TrueCost> cost,
                const GateOf& gate_of);

/// Adds the delay until each fault was named, with its location, by any agent of one node, and the agents' false
/// reports, which make a draw wrong as well.
void add_live(const std::vector<TrueFault>& faults, const std::vector<ReportedFault>& reported, DrawScore& score);

}  // namespace stalltrace::lab
