// SPDX-License-Identifier: Apache-2.0
// Runs draws one after the other, each as a process of its own (`stalltrace lab run`), scores it and writes its line
// before the next begins. A draw that fails is a result like any other.
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
  bool keep = false;                            // recordings of draws that went right, too
  bool live = false;                            // agents look while the job runs: how soon is a fault named?
  std::string program = "/proc/self/exe";       // that has `lab run` and `lab down`
  std::function<void(const DrawResult&)> done;  // after each; may be empty
};

/// Results of earlier draws in that folder, of the same campaign, count: only what is missing is run. Returns all of
/// them, by number. Ctrl-C ends the draw under way in order and is ErrorKind::kInterrupted; what was done is on disk.
/// Single-threaded, main thread.
Result<std::vector<DrawResult>> run_campaign(const CampaignOptions& options);

}  // namespace stalltrace::lab
