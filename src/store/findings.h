// SPDX-License-Identifier: Apache-2.0
// Findings kept in the recording they were drawn from, in the table `finding`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::store {

/// The stored findings, in the order they were given.
Result<std::vector<Finding>> read_findings(const std::string& path);

}  // namespace stalltrace::store
