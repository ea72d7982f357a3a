// SPDX-License-Identifier: Apache-2.0
// Findings in the table `finding` of the recording that they come from.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::store {

/// Replaces the findings of the recording at `path` with those of `report`, in one transaction. First migrates an older
/// schema. Works while a tracer writes the file.
Status write_findings(const std::string& path, const Report& report);

/// The stored findings, in the order in which they were written.
Result<std::vector<Finding>> read_findings(const std::string& path);

}  // namespace stalltrace::store
