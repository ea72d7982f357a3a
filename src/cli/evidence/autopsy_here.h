// SPDX-License-Identifier: Apache-2.0
// Looks at the jobs of this host: two snapshots of their ranks, with the calls in between counted, and what NCCL's RAS
// answers. For `stalltrace autopsy`, and for a server that does it for clients.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process/procfs.h"
#include "base/result.h"
#include "cli/evidence/autopsy_output.h"
#include "cli/framework/console.h"

namespace stalltrace::cli {

struct AutopsyOptions {
  std::vector<pid_t> pids;             // only ranks among these processes and their descendants; empty: all
  int64_t seconds = 3;                 // between the two snapshots
  bool trace = true;                   // put probes on the jobs' calls in that time
  bool ras = true;                     // ask NCCL's RAS of the jobs
  int64_t ras_ns = 60 * kNsPerSecond;  // of all jobs together
  CommandLines commands = CommandLines::kRedacted;
  std::string out;  // the file that the caller writes afterwards; empty: none
};

/// Nullopt: no process here uses a collective library, and no Python process has a rank. Gives up rights once a job has
/// answered. Errors (kNotFound): a process of `pids` is not there.
Result<std::optional<AutopsyResult>> look_at_this_host(const AutopsyOptions& options, Console& console);

}  // namespace stalltrace::cli
