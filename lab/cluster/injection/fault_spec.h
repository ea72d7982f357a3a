// SPDX-License-Identifier: Apache-2.0
// A fault as a person asks for it: "packet_loss:rank=2,percent=2,start=2s". The causes and their doses are the
// rows of fault_rows() (fault_table.h); this part only reads and checks text. Pure; any thread.
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
  std::optional<int> rank;  // whom it hits; none: `rank=random`, drawn by the run's seed
  /// After the job's first step; none: a third into the run.
  std::optional<int64_t> start_ns;
  bool at_launch = false;  // instead: in effect before the ranks start, to the end
  /// From start to the last of it; none: to the end of the run, or one pulse for a fault that comes in pulses.
  std::optional<int64_t> duration_ns;
  std::optional<int64_t> every_ns;  // period of a fault that comes and goes ...
  std::optional<int64_t> pulse_ns;  // ... and how long it lasts each time, unless a parameter of the row says that
  /// The row's own parameters, defaults filled in.
  std::map<std::string, std::string, std::less<>> values;

  /// A parameter the row declares as a number, or as a choice.
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] std::string_view choice(std::string_view name) const;
  /// True when the parameter has a value (one without default may have none).
  [[nodiscard]] bool has(std::string_view name) const;
};

/// "CAUSE:key=value,..." or "none". The error names what is wrong and what the cause takes.
Result<FaultSpec> parse_fault(std::string_view text);

/// One line per cause with its parameters, defaults and an example: for --help and the documents.
std::string fault_help();

}  // namespace stalltrace::lab
