// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "../workload/flags.h"

namespace lab::mpi {

const char* const kUsage =
    "usage: mpirun ... mpi-train [options]\n"
    "\n"
    "A training-like loop over MPI: each step computes, and reduces its gradients bucket by bucket.\n"
    "\n"
    "  --steps N        steps to run (100)\n"
    "  --elements N     floats of each gradient bucket (262144)\n"
    "  --buckets N      gradient buckets, one reduction each (4)\n"
    "  --compute-ms MS  CPU time of a step's forward and backward pass (2)\n"
    "  --step-ms MS     start steps no more often than this; 0 is flat out (0)\n"
    "  --blocking       MPI_Allreduce for each bucket instead of MPI_Iallreduce and one MPI_Waitall\n"
    "  --poll CALL      poll test, testall, testany or testsome until all are done, instead of MPI_Waitall\n"
    "  --mix K          every K-th step also runs the other collectives and an exchange of neighbours; 0 never (0)\n"
    "  --log FILE       one JSON line for each step\n"
    "\n"
    "LAB_SLOW_FILE names a file that may hold extra compute milliseconds for this rank; it is read every step.\n"
    "LAB_BUGS begins the names of files that switch on mistakes: skip, mismatch, disk, input.\n"
    "\n"
    "example: mpirun -n 2 mpi-train --steps 20\n";

std::expected<Options, std::string> parse_options(int argc, char** argv) {
  Options options;
  const std::array flags{
      Flag{"--steps", number(&options.steps)},
      Flag{"--elements", number(&options.elements)},
      Flag{"--buckets", number(&options.buckets)},
      Flag{"--compute-ms", number(&options.compute_ms)},
      Flag{"--step-ms", number(&options.step_ms)},
      Flag{"--mix", number(&options.mix)},
      Flag{"--blocking", [&](std::string_view) { return options.blocking = true; }, false},
      Flag{"--poll",
           [&](std::string_view text) {
             return std::find(kPolls.begin(), kPolls.end(), options.poll = text) != kPolls.end();
           }},
      Flag{"--log", [&](std::string_view text) { return !(options.log = text).empty(); }},
  };
  if (auto parsed = parse_flags(argc, argv, flags); !parsed) {
    return std::unexpected(std::move(parsed.error()));
  }
  return options;
}

}  // namespace lab::mpi
