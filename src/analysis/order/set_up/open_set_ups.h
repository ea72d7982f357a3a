// SPDX-License-Identifier: Apache-2.0
// Set-ups of communicators that began and did not end in the logs. Internal to analysis/order/set_up.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds at most one finding, on the largest communicator; a note where lines of the logs are damaged.
Status judge_open_set_ups(EventSource& source, std::vector<Finding>& findings, std::vector<std::string>& notes);

}  // namespace stalltrace::analysis
