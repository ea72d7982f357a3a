// SPDX-License-Identifier: Apache-2.0
// What `trace --live --push` hands over when a finding begins, gets worse, resumes or ends.
#pragma once

#include <cstdint>
#include <string>

#include "model/finding.h"
#include "report/live_text.h"

namespace stalltrace::report {

/// The agent that saw it: its node, and when it started (UTC), as its recording has them.
struct LiveAgent {
  std::string node;
  int64_t started_ns = 0;
};

/// One line with its newline: {"schema": 1, "node", "started_ns", "time_ns", "number", "news", "explained_by",
/// "finding"}; the finding as in a report (docs/findings.md). The parameters are those of live_finding_to_text().
std::string live_finding_to_json(const LiveAgent& agent, LiveHeadline headline, int64_t now_ns, int64_t number,
                                 const Finding& finding, int64_t explained_by);

}  // namespace stalltrace::report
