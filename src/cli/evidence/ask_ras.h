// SPDX-License-Identifier: Apache-2.0
// Asks the RAS of a running job for its reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "cli/framework/console.h"
#include "import/evidence.h"

namespace stalltrace::cli {

/// Asks twice, `between_ns` apart: what did not change in that time stands still. `address` is what NCCL_RAS_ADDR has
/// on that host, a number or "localhost" with a port; by default localhost:28028. Answers are JSON where NCCL can
/// (2.28.7), and come within 30 s; Errors: nothing answers, or not as RAS does. Connects from the calling thread.
Result<std::vector<import::RasAnswer>> ask_ras(const std::string& address, int64_t between_ns, Console& console);

/// Asks once, from the network namespace of process `pid`. The whole answer has to come within `answer_ns` of the
/// connection, and has `most_bytes` at most.
Result<import::RasAnswer> ask_ras_of(const Procfs& procfs, pid_t pid, const std::string& address, int64_t answer_ns,
                                     size_t most_bytes);

}  // namespace stalltrace::cli
