// SPDX-License-Identifier: Apache-2.0
// Who is behind on a communicator, by the numbers of launches. Internal to analysis/launches.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/launches/ras_reports.h"

namespace stalltrace::analysis {

/// The numbers of one operation that differ.
struct LaunchGap {
  std::string operation;  // NCCL's name; "Collective": all together
  uint64_t behind = 0;    // the lowest number
  uint64_t next = 0;      // the lowest of the others
  uint64_t front = 0;     // the highest

  auto operator<=>(const LaunchGap&) const = default;
};

struct LaunchDifference {
  std::vector<LaunchGap> gaps;  // not empty
  std::set<int32_t> away;       // ranks on the communicator that are behind in all of these
  int64_t unnamed_away = 0;     // ranks behind that the report does not name
  int64_t came = 0;             // the others that answered
  std::set<int32_t> named_came;
  bool diverged = false;       // ranks have launched different operations: neither is only behind
  std::optional<int32_t> odd;  // with `diverged`: the only rank that differs from all others
};

/// None if all ranks that answered have the same numbers.
std::optional<LaunchDifference> compare_launches(const RasComm& comm);

}  // namespace stalltrace::analysis
