// SPDX-License-Identifier: Apache-2.0
// nccl-train: one rank of a training-like job. Exit codes: 0 done, 1 failed, 2 wrong usage.
#include <cstdio>
#include <exception>

#include "job.h"
#include "modes.h"
#include "options.h"

using namespace lab::workload;

int main(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (!options && options.error().empty()) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const auto environment = read_rank_environment();
  if (!options || !environment) {
    std::fprintf(stderr, "nccl-train: %s\n", (!options ? options.error() : environment.error()).c_str());
    return 2;
  }
  install_stop_signals();
  try {
    Job job(*options, *environment);
    if (options->call_mode()) {
      run_calls(job);
    } else {
      train(job);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nccl-train: rank %d: %s\n", environment->rank, error.what());
    return 1;
  }
}
