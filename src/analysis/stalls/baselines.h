// SPDX-License-Identifier: Apache-2.0
// Baselines of a recording: how long transfers of one class take, how long a Recv waits for its Send, how far arrivals
// scatter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analysis/stalls/baseline.h"
#include "analysis/timeline/instance.h"

namespace stalltrace::analysis {

/// True if the instance's transfer counts for a baseline: it ended, and its communicator had warmed up.
bool counts_for_baseline(const Timeline& timeline, const Instance& instance);

class Baselines {
 public:
  /// Reads every instance once.
  static Baselines learn(const Timeline& timeline);

  /// The baseline for the instance's communicator, operation and size. The reference is valid as long as the object.
  [[nodiscard]] const Baseline& transfer(const Timeline& timeline, const Instance& instance) const;
  /// The baseline of the waits of one pair of ranks; null if the group is no pair.
  [[nodiscard]] const Baseline* pair_wait(uint32_t group) const;
  /// Arrivals of this group that are further apart are unusual; none if unknown.
  [[nodiscard]] std::optional<int64_t> spread_limit_ns(uint32_t group) const;

 private:
  struct OfGroup {
    std::map<uint16_t, Baseline> transfers;  // by baseline class
    std::optional<Baseline> pair_wait;
    std::optional<int64_t> spread_limit_ns;
  };
  std::vector<OfGroup> groups_;
};

}  // namespace stalltrace::analysis
