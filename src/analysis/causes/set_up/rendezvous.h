// SPDX-License-Identifier: Apache-2.0
// Why a launched job was not set up: its ranks did not meet. The rules use processes, their variables and their
// connection attempts; no call of a collective library is needed.
#pragma once

#include <optional>

#include "analysis/causes/set_up/job_set_up.h"
#include "model/finding.h"

namespace stalltrace::analysis {

/// None where nothing failed and no rank waits for long. Ranks that the finding names become members of the cluster.
std::optional<Finding> rendezvous_failure(const JobSetUp& set_up);

}  // namespace stalltrace::analysis
