// SPDX-License-Identifier: Apache-2.0
// A fault as text: "packet_loss:rank=2,percent=2,start=2s". fault_rows() (fault_table.h) lists the causes and their
// doses; this part only parses and validates text. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace::lab {

struct FaultSpec {
  std::string text;         // as written
  std::string cause;        // "none" or the name of a row
  std::optional<int> rank;  // the affected rank; nullopt: `rank=random`, drawn by the run's seed
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

/// Parses "CAUSE:key=value,..." or "none". The error names the problem and the cause's parameters.
Result<FaultSpec> parse_fault(std::string_view text);

/// One line per cause with its parameters, defaults and an example: for --help and the documentation.
std::string fault_help();

}  // namespace stalltrace::lab
