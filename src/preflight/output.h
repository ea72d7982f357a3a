// SPDX-License-Identifier: Apache-2.0
// Reports as text and JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "preflight/host_check.h"

namespace stalltrace::preflight {

/// A line for each check, with its remedy below it, and a last line with the verdict.
std::string checks_text(std::span<const HostCheck> checks);
/// The checks, below the matrix of GPUs and cards where there is a GPU.
std::string report_text(const HostReport& report);
std::string report_json(const HostReport& report);
/// {"hosts": [...], "failed": false, "checks": [...]}
std::string comparison_json(std::span<const HostReport> hosts, std::span<const HostCheck> found);
/// What report_json wrote. Errors: not such a report.
Result<HostReport> parse_report(std::string_view json);

}  // namespace stalltrace::preflight
