// SPDX-License-Identifier: Apache-2.0
// Findings in the table `finding` of the recording that they come from.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::store {

/// The stored findings, in the order they were given.
Result<std::vector<Finding>> read_findings(const std::string& path);

}  // namespace stalltrace::store
