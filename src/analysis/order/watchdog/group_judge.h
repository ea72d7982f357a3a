// SPDX-License-Identifier: Apache-2.0
// Who is behind in one process group whose ranks reported a timeout. Internal to analysis/order/watchdog.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/order/watchdog/group_findings.h"
#include "analysis/order/watchdog/judge_watchdog.h"

namespace stalltrace::analysis {

/// What a group shows beside its finding.
struct WatchdogWaits {
  WatchdogRanks ranks;   // that wait in the group, where it has no finding and is not held up
  std::string why;       // they can't be compared; empty: a note has it
  bool compared = true;  // they are in one call, and none is behind
  bool held_up = false;  // all that are behind wait in other groups
};

/// Judges once. Adds at most one finding to `out`, and notes. All references must outlive the object.
class GroupJudge {
 public:
  GroupJudge(const WatchdogLogs& logs, const WatchdogGroup& group, WatchdogVerdicts& out)
      : logs_(logs), group_(group), out_(out), findings_(logs, group) {}

  WatchdogWaits judge();

 private:
  [[nodiscard]] WatchdogWaits not_compared(std::string why = {}) const;
  [[nodiscard]] std::string older_text(const WatchdogRanks& ranks, int64_t than_ns, std::string_view than_what) const;
  std::string leave_out_older(const WatchdogRanks& came);
  [[nodiscard]] std::string older_than(const WatchdogRanks& stuck, const WatchdogRanks& past) const;
  void note(std::string_view text);
  std::optional<bool> judge_signatures(const WatchdogRanks& waiting);
  bool judge_away(const WatchdogRanks& came);
  bool judge_stuck(const WatchdogRanks& stuck, const WatchdogRanks& ahead);

  const WatchdogLogs& logs_;
  const WatchdogGroup& group_;
  WatchdogVerdicts& out_;
  GroupFindings findings_;
  std::optional<int64_t> first_;  // the lowest call that a rank waits in
  std::optional<int64_t> last_;
  WatchdogRanks away_;
  OlderRanks older_;
};

}  // namespace stalltrace::analysis
