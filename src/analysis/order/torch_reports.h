// SPDX-License-Identifier: Apache-2.0
// Findings from what PyTorch's own checks printed (model/events/imported/torch_report.h).
#pragma once

#include <vector>

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds to `findings`, which have been found in the same logs: one on the same rank gets the report as evidence.
Status add_torch_reports(EventSource& source, std::vector<Finding>& findings);

}  // namespace stalltrace::analysis
