// SPDX-License-Identifier: Apache-2.0
// What the training loop does outside of MPI: compute, write, read which mistakes to make, look at clocks.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace lab::mpi {

/// What the file LAB_BUGS followed by this name holds; empty while there is none.
std::string bug(std::string_view name);
/// Extra compute milliseconds for this rank, from the file LAB_SLOW_FILE names; 0 without one.
double slow_ms();

/// Keeps this thread busy for so much of its own CPU time.
void compute(double cpu_ms);
/// An input queue whose producer is gone: waits a while for what does not come.
void wait_for_input();
/// Writes as many megabytes as the bug "disk" says to a file beside it and waits until they are on disk.
void write_checkpoint();

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using LogFile = std::unique_ptr<FILE, CloseFile>;

double seconds_now();
long long utc_now_ns();

}  // namespace lab::mpi
