// SPDX-License-Identifier: Apache-2.0
// A report as JSON, schema 1 (docs/findings.md).
#pragma once

#include <string>
#include <vector>

#include "model/finding.h"

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

}  // namespace stalltrace::report
