// SPDX-License-Identifier: Apache-2.0
// Findings from the numbers that PyTorch's watchdog prints with a timeout (model/events/imported/watchdog_report.h):
// often all that a job without NCCL_DEBUG leaves behind.
#pragma once

#include <string>
#include <vector>

#include "analysis/order/watchdog/watchdog_groups.h"
#include "model/finding.h"

namespace stalltrace::analysis {

struct WatchdogVerdicts {
  std::vector<Finding> findings;  // one for each group that shows who is behind; else one in all
  std::vector<std::string> notes;
};

/// Pure. Without any report of a timeout: nothing.
WatchdogVerdicts judge_watchdog(const WatchdogLogs& logs);

}  // namespace stalltrace::analysis
