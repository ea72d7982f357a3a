// SPDX-License-Identifier: Apache-2.0
// The findings on one process group whose ranks reported a timeout, once it is known who is to blame. Internal to
// analysis/order/watchdog.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/order/watchdog/watchdog_groups.h"
#include "analysis/rank_numbers.h"
#include "model/finding.h"

namespace stalltrace::analysis {

using WatchdogRanks = std::vector<int32_t>;

/// Of the job's ranks; where their number is not known, of those up to the highest one that wrote a line.
MissingRanks ranks_without_line(const WatchdogLogs& logs);

/// Ranks that are behind by numbers of before the timeout: they may have gone on since.
struct OlderRanks {
  WatchdogRanks ranks;
  std::string text;  // who they are, and how much older their numbers are
};

/// Both must outlive the object.
class GroupFindings {
 public:
  GroupFindings(const WatchdogLogs& logs, const WatchdogGroup& group) : logs_(logs), group_(group) {}

  /// "call 4214 (ALLREDUCE of 16 elements) of process group 0(default_pg)"
  [[nodiscard]] std::string call_text(int64_t number, const WatchdogRanks& ranks) const;
  /// What all findings have: cost, window and the line of the first of the waiting ranks.
  [[nodiscard]] Finding finding_of(Cause cause, double confidence, const WatchdogRanks& waiting) const;

  /// Ranks that wait under one number, but in different calls; `sides`: those of each call, the largest first.
  [[nodiscard]] Finding mismatched(int64_t number, const WatchdogRanks& waiting,
                                   const std::vector<WatchdogRanks>& sides) const;
  /// `behind` did not begin the call that `came` began.
  [[nodiscard]] Finding missing(int64_t number, const WatchdogRanks& came, const WatchdogRanks& behind,
                                const OlderRanks& older) const;
  /// The call ended on the ranks `ahead`, not on `stuck`; `last`: the highest call that a rank waits in.
  [[nodiscard]] Finding stuck(int64_t number, int64_t last, const WatchdogRanks& stuck, const WatchdogRanks& ahead,
                              const OlderRanks& older) const;

 private:
  void quote(int32_t rank, Finding& finding) const;
  [[nodiscard]] Culprit culprit(int32_t rank) const;
  [[nodiscard]] double at_most(double confidence, const OlderRanks& older) const;

  const WatchdogLogs& logs_;
  const WatchdogGroup& group_;
};

}  // namespace stalltrace::analysis
