// SPDX-License-Identifier: Apache-2.0
// Was the finding right? Compares findings.json with truth.json: cause and place of every finding, how soon it was
// made and what it said the fault cost. Pure; any thread.
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

/// What truth.json says of one fault that was in effect.
struct TrueFault {
  std::string cause;
  bool harmless = false;
  int rank = 0;
  std::optional<FaultLink> link;
  std::string direction;  // empty where the fault has none
  std::vector<Interval> intervals;
};

/// What findings.json says.
struct SaidFault {
  std::string cause;
  std::optional<int> culprit;  // its rank
  std::optional<FaultLink> link;
  double stall_ms = 0;
  int64_t detected_ns = 0;  // of what was reported live
};

struct TruthRead {
  std::vector<TrueFault> faults;
  int64_t ended_ns = 0;
  bool completed = false;
};

/// ErrorKind::kCorrupt when the text is not what the lab writes.
Result<TruthRead> read_truth(std::string_view json);
Result<std::vector<SaidFault>> read_findings(std::string_view json);

/// Cause and place: a fault on one direction of a node is that node's, or that of a link it can be seen on.
bool names(const SaidFault& said, const TrueFault& fault);

enum class DrawVerdict : uint8_t {
  kRight,      // every fault is named with its place, and nothing else
  kAbstained,  // nothing false is said, but a fault is not named
  kWrong,      // something false is said
  kCostless,   // nothing is said of a fault that cost the job nothing worth saying
  kFailed,     // the run itself did not work
};
std::string_view to_text(DrawVerdict verdict);
std::optional<DrawVerdict> verdict_from_text(std::string_view text);

/// One fault, and what was said of it.
struct FaultScore {
  std::string cause;
  std::string said;  // the cause that was named in its place: its own, a wrong one, "unknown" or "nothing"
  std::optional<double> latency_ms;  // from its first effect until it was named live
  std::optional<double> cost_ms;     // what it cost the job, where that is known
  std::optional<double> said_ms;     // what the finding says
};

struct DrawScore {
  DrawVerdict verdict = DrawVerdict::kFailed;
  std::vector<FaultScore> faults;
  std::vector<std::string> false_causes;  // said without any fault to it; "unknown" is not among them
  std::vector<std::string> live_false;    // the same, of what agents reported while the job ran
};

/// Less than this, by the job's own clock, is what one timeout of TCP costs (200 ms) and the scatter of steps: to stay
/// silent about it is right.
inline constexpr double kWorthSayingMs = 250;

/// `unknown` beside a fault that is named is no mistake; where nothing was injected every finding is one.
DrawScore score(const std::vector<TrueFault>& faults, const std::vector<SaidFault>& said,
                std::optional<double> cost_ms);

/// Adds how soon each fault was named, with its place, by any agent that watched one node alone, and what was reported
/// falsely.
void add_live(const std::vector<TrueFault>& faults, const std::vector<SaidFault>& reported, DrawScore& score);

}  // namespace stalltrace::lab
