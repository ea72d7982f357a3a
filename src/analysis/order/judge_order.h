// SPDX-License-Identifier: Apache-2.0
// Findings from the order of calls alone: who did not begin a call that others began, and whose call differs. A log has
// no ends, and CPUs run ahead of each other, so that a difference in a healthy job's log is ordinary: what separates
// the two is in docs/findings.md ("From logs and dumps"), and in the finding's severity and confidence.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/order/call_order.h"
#include "model/finding.h"

namespace stalltrace::analysis {

struct OrderVerdicts {
  std::vector<Finding> findings;
  std::vector<std::string> notes;
};

/// `recorded`: ranks of communicators that recordings show: they are judged there.
OrderVerdicts judge_order(const OrderEvidence& evidence, const std::set<std::pair<CommHash, int32_t>>& recorded);

}  // namespace stalltrace::analysis
