// SPDX-License-Identifier: Apache-2.0
// What a practice job's script does beside its collectives: computing, waiting for input, writing, the mistakes that
// small files switch on while it runs, reading clocks. For nccl-train and mpi-train.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace lab {

/// The content of the file LAB_BUGS followed by this bug's name; empty if there is none.
std::string bug(std::string_view name);
/// Extra compute milliseconds for this rank, from the file LAB_SLOW_FILE names; 0 without one.
double slow_ms();

/// Keeps this thread busy for this much of its own CPU time.
void compute(double cpu_ms);
/// Simulates an input queue whose producer is gone: waits a while in vain.
void wait_for_input();
/// Waits for as many milliseconds as the bug "input" gives, as for the input of the step.
void wait_for_slow_input();
/// Writes this many megabytes to a file of this rank, LAB_BUGS followed by NAME.written, and waits until they are on
/// disk.
void write_to_disk(std::string_view name, long megabytes);
/// The same with as many megabytes as the bug "disk" gives.
void wait_for_disk();

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using LogFile = std::unique_ptr<FILE, CloseFile>;

double seconds_now();
long long utc_now_ns();

}  // namespace lab
