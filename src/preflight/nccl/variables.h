// SPDX-License-Identifier: Apache-2.0
// The variables that NCCL reads, and the values that they may have: NCCL's user guide (docs/userguide/source/env.rst)
// and, for those that it does not name, its source code (NCCL_PARAM), as of NCCL 2.30, 2026-11.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace stalltrace::preflight {

enum class ValueKind : uint8_t {
  kInteger,     // in [low, high]
  kWord,        // one of `words`; case does not matter
  kWords,       // a list of them, separated by commas; "^" before it excludes
  kLevel,       // one of `words`, or an integer in [low, high]
  kInterfaces,  // prefixes of network interfaces
  kDevices,     // prefixes of InfiniBand devices
  kText,        // anything
};

struct Variable {
  std::string_view name;
  ValueKind kind = ValueKind::kText;
  int64_t low = 0;
  int64_t high = 0;
  std::string_view words = {};  // separated by blanks
  bool exact_case = false;      // of `words`
  /// In the guide's section "Debugging": a workaround that is to be removed again.
  bool workaround = false;
  std::string_view obsolete = {};  // why it does nothing, or what replaced it; empty: it works
};

/// The documented variables.
std::span<const Variable> documented_variables();
/// nullptr if it is not documented.
const Variable* find_variable(std::string_view name);
/// Whether NCCL's source code reads a variable that the guide does not name.
bool is_undocumented(std::string_view name);
/// All names of both.
std::vector<std::string_view> all_variable_names();

}  // namespace stalltrace::preflight
