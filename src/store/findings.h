// SPDX-License-Identifier: Apache-2.0
// Findings kept in the recording they were drawn from, in the table `finding`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/finding.h"

namespace stalltrace::store {

/// Replaces the findings of the recording at `path` by those of `report`, in one transaction. Brings an older
/// schema up to date first. Works while a tracer is writing the file.
Status write_findings(const std::string& path, const Report& report);

/// The stored findings, in the order they were given.
Result<std::vector<Finding>> read_findings(const std::string& path);

}  // namespace stalltrace::store
