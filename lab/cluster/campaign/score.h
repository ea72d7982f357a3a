// SPDX-License-Identifier: Apache-2.0
// Compares findings.json with truth.json: cause and location of every finding, its delay, and the cost it gives for the
// fault. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/cluster/injection/fault_table.h"
#include "lab/cluster/truth.h"

namespace stalltrace::lab {

/// One fault in effect, from truth.json.
struct TrueFault {
  std::string cause;
  bool harmless = false;
  int rank = 0;
  std::optional<FaultLink> link;
  std::string direction;  // empty if the fault has none
  std::vector<TimeRange> intervals;
};

/// One finding from findings.json.
struct ReportedFault {
  std::string cause;
  std::optional<int> culprit;  // the culprit's rank
  std::optional<FaultLink> link;
  double stall_ms = 0;
  int64_t detected_ns = 0;  // for findings reported live
};

struct TruthRead {
  std::vector<TrueFault> faults;
  int64_t ended_ns = 0;
  bool completed = false;
};

/// ErrorKind::kCorrupt if the lab did not write the text.
Result<TruthRead> read_truth(std::string_view json);
Result<std::vector<ReportedFault>> read_findings(std::string_view json);

/// Whether cause and location match: a fault on one direction of a node is that node's, or that of a link where it
/// shows.
bool names(const ReportedFault& reported, const TrueFault& fault);

enum class DrawVerdict : uint8_t {
  kRight,      // every fault is named with its location, and nothing else is reported
  kAbstained,  // nothing false is reported, but a fault is not named
  kWrong,      // something false is reported
  kCostless,   // nothing is reported about a fault of negligible cost
  kFailed,     // the run itself did not work
};
std::string_view to_text(DrawVerdict verdict);
std::optional<DrawVerdict> verdict_from_text(std::string_view text);

/// One fault, and the findings about it.
struct FaultScore {
  std::string cause;
  std::string reported;               // the cause reported in its place: its own, a wrong one, "unknown" or "nothing"
  std::optional<double> latency_ms;   // from its first effect until it was reported live
  std::optional<double> cost_ms;      // its cost to the job, if known
  std::optional<double> reported_ms;  // the finding's cost
};

struct DrawScore {
  DrawVerdict verdict = DrawVerdict::kFailed;
  std::vector<FaultScore> faults;
  std::vector<std::string> false_causes;  // reported without a matching fault; excludes "unknown"
  std::vector<std::string> live_false;    // the same for agents' reports while the job ran
};

/// Smaller costs, by the job's own clock, are within one TCP timeout (200 ms) and the scatter of steps: not reporting
/// them is right.
inline constexpr double kWorthSayingMs = 250;

/// `unknown` beside a correctly named fault is not an error; without any injected fault every finding is one.
DrawScore score(const std::vector<TrueFault>& faults, const std::vector<ReportedFault>& reported,
                std::optional<double> cost_ms);

/// Adds the delay until each fault was named, with its location, by any agent of one node, and the agents' false
/// reports.
void add_live(const std::vector<TrueFault>& faults, const std::vector<ReportedFault>& reported, DrawScore& score);

}  // namespace stalltrace::lab
