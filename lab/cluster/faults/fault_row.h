// SPDX-License-Identifier: Apache-2.0
// What every fault of the lab has: a row of the table of faults, what a user asks of it, and what it leaves to undo.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/cluster/host/node.h"
#include "lab/cluster/host/undo.h"

namespace stalltrace::lab {

/// A fault as a user asks for it: the text (injection/fault_spec.h) in parts.
struct FaultSpec {
  std::string text;         // as written
  std::string cause;        // "none" or the name of a row
  std::optional<int> rank;  // the affected rank; nullopt: `rank=random`, drawn by the run's seed
  std::optional<int> node;  // instead: the affected node
  /// After the job's first step; nullopt: a third into the run.
  std::optional<int64_t> start_ns;
  bool at_launch = false;  // instead: in effect from before the ranks start to the end
  /// Length from start to its last effect; nullopt: to the end of the run, or one pulse for a fault with pulses.
  std::optional<int64_t> duration_ns;
  std::optional<int64_t> every_ns;  // period of an intermittent fault ...
  std::optional<int64_t> pulse_ns;  // ... and the length of a pulse, unless a parameter of the row gives it
  /// The row's own parameters, with defaults.
  std::map<std::string, std::string, std::less<>> values;

  /// A parameter that the row declares as a number, or as a choice.
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] std::string_view choice(std::string_view name) const;
  /// True if the parameter has a value (one without a default may have none).
  [[nodiscard]] bool has(std::string_view name) const;
};

/// The number that a parameter's text is; nullopt: it is none.
std::optional<double> parameter_number(std::string_view text);

/// The target of a fault.
struct FaultContext {
  std::span<const VirtualNode> nodes;  // by rank: each with the node that it is on
  int rank = 0;                        // the affected rank
  int number = 0;                      // number of this fault in the run, for unique names
  bool outlives_caller = false;        // applied by hand: helpers outlive the process that started them

  [[nodiscard]] const VirtualNode& node() const { return nodes[static_cast<size_t>(rank)]; }
};

struct FaultLink {
  int src_rank = 0;
  int dst_rank = 0;
};

/// A named packet counter of nftables.
struct PacketCounter {
  std::string netns;
  std::string family;  // of the table: "inet", "netdev"
  std::string table;
};

/// A fault in effect, with everything needed to end it.
struct AppliedFault {
  std::vector<std::string> commands;  // equivalent shell commands
  std::vector<UndoAction> undo;       // in order of execution; undone in reverse
  std::optional<FaultLink> link;      // set if a link is affected rather than the rank
  std::optional<PacketCounter> drops;
  std::vector<std::pair<std::string, std::string>> details;  // details besides the dose: who, where
};

/// A parameter is a number within limits, or one of `choices` where there are any.
struct FaultParameter {
  std::string_view name;
  std::string_view standard;  // the default, as text; empty: none
  double minimum = 0;
  double maximum = 0;
  std::span<const std::string_view> choices;
  std::string_view help;
};

/// When a fault can begin.
enum class Onset : uint8_t {
  kRunning,  // once the job runs: it acts on the ranks' processes
  kAny,      // also before the ranks start (`start=launch`), then to the end
  kLaunch,   // only then
};

struct FaultRow {
  std::string_view cause;
  std::string_view summary;
  std::string_view example;
  std::span<const FaultParameter> parameters;
  std::string_view pulse;  // the parameter with the length of a pulse in ms; empty: the fault acts all the time
  /// Puts the fault into effect. On error nothing is left behind.
  Result<AppliedFault> (*apply)(const FaultSpec&, const FaultContext&);
  Onset onset = Onset::kRunning;
  bool harmless = false;   // normal behaviour, not a fault: no finding is expected
  bool of_node = false;    // acts on the interface of a rank's node, and so on all ranks of that node
  bool of_job = false;     // acts on all ranks alike, and takes no location: its rank is 0, and no rank is to blame
  bool catalogued = true;  // false: no cause of findings describes it
};

}  // namespace stalltrace::lab
