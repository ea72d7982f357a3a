// SPDX-License-Identifier: Apache-2.0
// The workload's options: the command line, and torchrun's environment of a rank.
#pragma once

#include <nccl.h>

#include <expected>
#include <string>

namespace lab::workload {

struct Options {
  long steps = 100;
  size_t elements = 262144;  // of each gradient bucket
  int buckets = 4;
  double compute_ms = 2;  // CPU time of forward and backward pass together
  double step_ms = 0;     // shortest period of a step; 0: no pause
  ncclDataType_t dtype = ncclFloat32;
  long stages = 0;    // interval in steps of a pipeline over the ranks; 0: never
  long exchange = 0;  // interval in steps of an exchange with the neighbour; 0: never
  long mix = 0;       // interval in steps of the other collectives; 0: never
  bool verify = false;
  std::string log;               // one JSON line per step or call
  double calls_per_second = 0;   // call mode: AllReduces at this rate ...
  long calls = 0;                // ... this many
  bool flat_out = false;         // ... or without a pause
  long sync_every = 1;           // ... with a stream synchronisation after this many
  bool device_clock = false;     // ... each timed by CUDA events too
  double device_ms = 0;          // part of each step in which the device computes and the CPU waits
  bool uneven = false;           // messages of many sizes
  long warm_up_steps = 0;        // the first steps compute longer ...
  double warm_up_ms = 300;       // ... by up to this
  long checkpoint_every = 0;     // steps; 0: never
  long checkpoint_mbytes = 8;    // of each rank
  long evaluate_every = 0;       // steps, on rank 0; 0: never
  double evaluate_ms = 1000;     // CPU time
  double save_ms = 0;            // CPU time of rank 0 at the end
  double watchdog_seconds = 10;  // after an asynchronous error, until the communicators are aborted

  [[nodiscard]] bool call_mode() const { return calls_per_second > 0 || calls > 0 || flat_out; }
};

/// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; alone on this host when unset.
struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
};

extern const char* const kUsage;

/// The error is a message for the user; empty after --help.
std::expected<Options, std::string> parse_options(int argc, char** argv);
std::expected<RankEnvironment, std::string> read_rank_environment();

}  // namespace lab::workload
