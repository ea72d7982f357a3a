// SPDX-License-Identifier: Apache-2.0
// The steps of a job, as far as the calls of a rank repeat: which calls a step has, on whatever communicators.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// After how many calls the rank's calls (communicator, operation, size, in the order of its CPU) begin again; none if
/// its newest calls do not repeat three times. Buckets of one size on one communicator repeat with each call: that is
/// 1. Looks at kCallsOfSteps calls.
std::optional<int64_t> calls_in_step(const Timeline& timeline, MemberIndex member);
inline constexpr size_t kCallsOfSteps = 8192;

/// When ranks had settled; found once for each rank that is asked for. The timeline must outlive it. Single-threaded.
class Settling {
 public:
  explicit Settling(const Timeline& timeline) : timeline_(timeline) {}

  /// When the rank's first kSettlingSteps steps were over, at most kSettlingLongestNs after its first call; none if its
  /// steps or its first calls are not known.
  [[nodiscard]] std::optional<int64_t> settled_ns(MemberIndex member) const;
  /// calls_in_step(), found once for each rank.
  [[nodiscard]] std::optional<int64_t> calls_of_step(MemberIndex member) const;

 private:
  const Timeline& timeline_;
  mutable std::map<MemberIndex, std::optional<int64_t>> known_;
  mutable std::map<MemberIndex, std::optional<int64_t>> calls_;
};

}  // namespace stalltrace::analysis
