// SPDX-License-Identifier: Apache-2.0
// The faults the lab can inject: one row each, its code in one file under faults/. A new cause is a new row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "lab/cluster/host/node.h"
#include "lab/cluster/injection/fault_spec.h"
#include "lab/cluster/injection/undo.h"

namespace stalltrace::lab {

/// The target of a fault.
struct FaultContext {
  std::span<const VirtualNode> nodes;  // by rank
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
  bool harmless = false;  // normal behaviour, not a fault: no finding is expected
};

std::span<const FaultRow> fault_rows();
/// nullptr: no such cause.
const FaultRow* find_fault_row(std::string_view cause);

/// Length of one pulse; nullopt: the fault acts all the time.
std::optional<int64_t> pulse_of(const FaultRow& row, const FaultSpec& spec);

/// Validates ranks against the size of the cluster, which parse_fault can't do. Draws the rank of `rank=random`.
Result<int> choose_rank(const FaultSpec& spec, int ranks, uint64_t seed);

/// Number of packets dropped so far.
Result<uint64_t> read_counter(const PacketCounter& counter);

}  // namespace stalltrace::lab
