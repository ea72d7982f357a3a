// SPDX-License-Identifier: Apache-2.0
// dead_rank by what Python printed in a job's output: which rank raised an exception of its own, before the watchdogs
// and the communication of the others failed because of it.
#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds at most one finding, before the others. Findings in `findings`, which are of the same logs, that follow from
/// the exception become its evidence: on the same rank, and without a culprit.
Status add_raised(EventSource& source, std::vector<Finding>& findings, std::vector<std::string>& notes);

}  // namespace stalltrace::analysis
