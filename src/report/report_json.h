// SPDX-License-Identifier: Apache-2.0
// A report as JSON, schema 1 (docs/findings.md), for programs.
#pragma once

#include <string>
#include <vector>

#include "model/finding.h"

namespace stalltrace {

/// One object, two-space indented, with a newline at its end. Hashes are "0x..." strings, times UTC nanoseconds.
std::string report_to_json(const Report& report);

/// A finding that an agent told while it traced.
struct ToldFinding {
  std::string node;  // of that agent
  Finding finding;
};
/// {"schema": 1, "findings": [{"reported_by": "node2", "cause": ..., "detected_ns": ..., "ended_ns": ...}]}
std::string told_findings_to_json(const std::vector<ToldFinding>& findings);

}  // namespace stalltrace
