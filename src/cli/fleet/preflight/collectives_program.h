// SPDX-License-Identifier: Apache-2.0
// Starts the program that makes collectives through the job's library for a rank of `preflight --network
// --collectives`.
#pragma once

#include "base/result.h"
#include "preflight/peers/launch.h"

namespace stalltrace::cli {

/// It has this process's environment and rights, and ends with the thread that calls this. What its libraries print
/// goes to standard error. It has loaded nothing yet. To be called before a thread is started and before rights are
/// given up. Errors: it can't be executed, or this program has rights that its user lacks, whom it would lend them to.
Result<preflight::CollectivesHelper> start_collectives_program(const preflight::CollectiveLimits& limits);

}  // namespace stalltrace::cli
