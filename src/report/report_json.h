// SPDX-License-Identifier: Apache-2.0
// A report as JSON, schema 1 (docs/findings.md).
#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "report/live_text.h"

namespace stalltrace::report {

/// One object, two-space indented, with a final newline. Hashes are "0x..." strings, times UTC nanoseconds.
std::string report_to_json(const Report& report);

/// A finding that an agent reported during its trace.
struct ReportedFinding {
  std::string node;  // name of that agent's node
  Finding finding;
};
/// {"schema": 1, "findings": [{"reported_by": "node2", "cause": ..., "detected_ns": ..., "ended_ns": ...}]}
std::string reported_findings_to_json(const std::vector<ReportedFinding>& findings);

/// The agent that saw a live finding: its node, and when it started (UTC), as its recording has them.
struct LiveAgent {
  std::string node;
  int64_t started_ns = 0;
};
/// What `trace --live --push` hands over: one line with its newline, {"schema": 1, "node", "started_ns", "time_ns",
/// "number", "news", "explained_by", "finding"}; the finding as in a report (docs/findings.md). The parameters are
/// those of live_finding_to_text().
std::string live_finding_to_json(const LiveAgent& agent, LiveHeadline headline, int64_t now_ns, int64_t number,
                                 const Finding& finding, int64_t explained_by);

}  // namespace stalltrace::report
