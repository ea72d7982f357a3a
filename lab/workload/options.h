// SPDX-License-Identifier: Apache-2.0
// What the workload was asked to do: the command line, and the environment that torchrun gives a rank.
#pragma once

#include <nccl.h>

#include <expected>
#include <string>

namespace lab::workload {

struct Options {
  long steps = 100;
  size_t elements = 262144;  // of each gradient bucket
  int buckets = 4;
  double compute_ms = 2;  // CPU time of forward and backward together
  double step_ms = 0;     // shortest period of a step; 0 is flat out
  ncclDataType_t dtype = ncclFloat32;
  long mix = 0;  // every so many steps the other collectives as well; 0 never
  bool verify = false;
  std::string log;               // one JSON line for each step or call
  double calls_per_second = 0;   // call mode: AllReduces at this rate ...
  long calls = 0;                // ... so many of them
  bool flat_out = false;         // ... or as fast as possible
  long sync_every = 1;           // ... with a stream synchronisation after so many
  double watchdog_seconds = 10;  // after an asynchronous error, until the communicators are aborted

  [[nodiscard]] bool call_mode() const { return calls_per_second > 0 || calls > 0 || flat_out; }
};

/// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; alone on this host when unset.
struct Place {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
};

extern const char* const kUsage;

/// The error is a message for the user; empty after --help.
std::expected<Options, std::string> parse_options(int argc, char** argv);
std::expected<Place, std::string> read_place();

}  // namespace lab::workload
