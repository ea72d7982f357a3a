// SPDX-License-Identifier: Apache-2.0
// NCCL's RAS of jobs that run on this host: where it listens, and what it answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autopsy/snapshot.h"
#include "base/process/procfs.h"
#include "cli/framework/console.h"
#include "import/evidence.h"

namespace stalltrace::cli {

/// What the RAS of one job answered.
struct JobRas {
  std::string job;
  std::vector<import::RasAnswer> answers;  // as they came: not looked at yet
  std::string problem;                     // why there are none, or too few; empty: there is nothing to report
};

/// One for each job of which a process of the snapshot listens where RAS does: at NCCL_RAS_ADDR of its environment,
/// else at localhost:28028. Asks twice: numbers that differ a second apart do not stand still. No job is waited for
/// longer than some seconds, and all together not much longer than `all_ns`: jobs that are not asked then have that as
/// their problem. To be called after the last snapshot: RAS asks all processes of the job, over sockets of theirs.
std::vector<JobRas> ask_ras_of_jobs(const Procfs& procfs, const autopsy::Snapshot& last, int64_t all_ns,
                                    Console& console);

/// The answers, read: bytes that the job made. What is no report becomes the problem.
std::vector<autopsy::RasAccount> read_ras_answers(std::vector<JobRas>& jobs);

}  // namespace stalltrace::cli
