// SPDX-License-Identifier: Apache-2.0
// Why a job that a launcher started was not set up: its ranks did not meet. Judges processes, their variables and their
// attempts to connect; no call of a collective library need have been made.
#pragma once

#include <optional>

#include "analysis/causes/set_up/job_set_up.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// None where nothing failed and no rank waits for long. Ranks that the finding names become members of the cluster.
std::optional<Finding> rendezvous_failure(const JobSetUp& set_up);

}  // namespace stalltrace::analysis
