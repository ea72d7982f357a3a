// SPDX-License-Identifier: Apache-2.0
// mpi-train's command line.
#pragma once

#include <array>
#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

namespace lab::mpi {

struct Options {
  long steps = 100;
  size_t elements = 262144;  // floats of each gradient bucket
  int buckets = 4;
  double compute_ms = 2;  // CPU time of forward and backward pass together
  double step_ms = 0;     // shortest period of a step; 0: no pause
  long mix = 0;           // interval in steps of the other collectives; 0: never
  bool blocking = false;  // MPI_Allreduce instead of MPI_Iallreduce and MPI_Waitall
  std::string poll;       // the call to poll instead of MPI_Waitall, one of kPolls; empty: no polling
  std::string log;        // one JSON line per step
};

inline constexpr std::array<std::string_view, 4> kPolls = {"test", "testall", "testany", "testsome"};

extern const char* const kUsage;

/// The error is a message for the user; empty after --help.
std::expected<Options, std::string> parse_options(int argc, char** argv);

}  // namespace lab::mpi
