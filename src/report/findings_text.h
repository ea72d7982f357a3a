// SPDX-License-Identifier: Apache-2.0
// Findings without a recording, as `stalltrace autopsy` has them: for people, and each as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "model/finding.h"
#include "report/report_text.h"

namespace stalltrace::report {

/// A block of lines for each, numbered from 1.
std::string findings_to_text(std::span<const Finding> findings, const TextOptions& options = {});
/// A finding as report_to_json has it (docs/findings.md).
nlohmann::ordered_json finding_to_json(const Finding& finding);

}  // namespace stalltrace::report
