// SPDX-License-Identifier: Apache-2.0
// Findings from what a job's output has of the end of single processes (model/events/imported/process_report.h): errors
// of CUDA and NCCL, PyTorch's watchdog that stands still, and processes that torchrun saw end.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds findings, or evidence to those that are there; errors of the GPU come first.
Status add_process_reports(EventSource& source, std::vector<Finding>& findings, std::vector<std::string>& notes);

}  // namespace stalltrace::analysis
