// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/processes/take_over.h"

#include <algorithm>

namespace stalltrace::analysis {

void take_over_waiting(const std::set<int32_t>& ranks, std::vector<Finding>& findings, Finding& finding) {
  std::erase_if(findings, [&](const Finding& other) {
    const bool of_first = other.culprit && other.culprit->rank && ranks.contains(*other.culprit->rank);
    const bool waits = other.cause == Cause::kMissingCollective || other.cause == Cause::kUnknown;
    if (!waits || (other.culprit && (!of_first || !finding.culprit))) {
      return false;
    }
    finding.evidence.push_back({"log_line", 1, other.summary, {}});
    finding.stall_ms = std::max(finding.stall_ms, other.stall_ms);
    finding.op = finding.collectives_affected > 0 ? finding.op : other.op;
    finding.comm_id_hash = finding.comm_id_hash != 0 ? finding.comm_id_hash : other.comm_id_hash;
    finding.collectives_affected = std::max(finding.collectives_affected, other.collectives_affected);
    finding.window = {std::min(finding.window.from_ns, other.window.from_ns),
                      std::max(finding.window.to_ns, other.window.to_ns)};
    return true;
  });
}

}  // namespace stalltrace::analysis
