// SPDX-License-Identifier: Apache-2.0
// Runs draws one after the other, each in its own process (`stalltrace lab run`), scores it and writes its line before
// the next begins. A failed draw is a result like any other: it is run again without agents, to see whether the job
// alone fails as well.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/cluster/campaign/result.h"
#include "lab/cluster/host/interrupt.h"

namespace stalltrace::lab {

struct CampaignOptions {
  uint64_t seed = 1;
  int64_t runs = 0;
  std::vector<std::string> workloads;
  std::string only;  // settings whose name contains it
  std::string out_dir;
  bool keep = false;                            // keep recordings of correct draws too
  bool live = false;                            // agents analyse while the job runs, to measure the delay of a finding
  std::string program = "/proc/self/exe";       // program with `lab run` and `lab down`
  std::string program_id;                       // which one that is: each draw's line has it (DrawResult::program)
  GateOf gate_of;                               // of the analysis
  std::function<void(const DrawResult&)> done;  // after each; may be empty
};

/// Results of earlier draws of the same campaign in that folder count: only missing draws are run. Those of another
/// program are refused, since no figure would be one program's. Returns all of them, by number. Ctrl-C ends the current
/// draw normally and gives ErrorKind::kInterrupted; finished draws are on disk. Single-threaded, main thread.
Result<std::vector<DrawResult>> run_campaign(const CampaignOptions& options);

}  // namespace stalltrace::lab
