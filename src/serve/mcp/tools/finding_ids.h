// SPDX-License-Identifier: Apache-2.0
// Names of findings that last while a recording grows.
#pragma once

#include <string>
#include <vector>

#include "model/finding.h"

namespace stalltrace::serve::mcp {

/// One id for each finding, in order: its cause, and a hash of whom and what it blames. "packet_loss-1a2b3c4d"; a
/// second one with the same is "...-2".
std::vector<std::string> finding_ids(const std::vector<Finding>& findings);

}  // namespace stalltrace::serve::mcp
