// SPDX-License-Identifier: Apache-2.0
// The training loop's work outside of MPI: computing, writing, reading which bugs are on, reading clocks.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace lab::mpi {

/// The content of the file LAB_BUGS followed by this name; empty if there is none.
std::string bug(std::string_view name);
/// Extra compute milliseconds for this rank, from the file LAB_SLOW_FILE names; 0 without one.
double slow_ms();

/// Keeps this thread busy for this much of its own CPU time.
void compute(double cpu_ms);
/// Simulates an input queue whose producer is gone: waits a while in vain.
void wait_for_input();
/// Waits for as many milliseconds as the bug "input" gives, as for the input of the step.
void wait_for_slow_input();
/// Writes as many megabytes as the bug "disk" gives to a file beside it, and waits until they are on disk.
void write_checkpoint();

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using LogFile = std::unique_ptr<FILE, CloseFile>;

double seconds_now();
long long utc_now_ns();

}  // namespace lab::mpi
