// SPDX-License-Identifier: Apache-2.0
// What is simulated: a job's shape and size, how it is recorded, and what is wrong with it. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace stalltrace::simulation {

/// What a rank does in a step.
enum class Program : uint8_t {
  kReplicas,  // DDP: gradients are reduced bucket by bucket during the backward pass
  kShards,    // FSDP: AllGathers are launched a unit ahead, a ReduceScatter follows each unit's backward pass
  kMesh,      // tensor groups within nodes, pipeline stages, data groups; any of them may have one rank
};

/// Something long and rare that healthy jobs do between two steps.
struct Pause {
  enum class By : uint8_t { kFirst, kLast, kGroup, kSome };
  By by = By::kFirst;  // rank 0; the last rank; every rank of the first tensor group, or half of the node; a few ranks
  int every = 0;       // steps; 0: once, in the middle
  double seconds = 3;  // mean
  bool computes = true;  // false: it waits for files
};

enum class FaultKind : uint8_t {
  kLateRank,
  kSlowDevice,
  kDeadRank,
  kProcessStopped,
  kMissingCollective,
  kMismatchedCollective,
  kSlowLink,      // of a node: what leaves its network interface
  kPacketLoss,    // of a node: what leaves its network interface
  kFabricErrors,  // of a node: its InfiniBand port, whose link repeats what it damages
  kCongestion,    // of the fabric: all that passes it
};

struct Fault {
  FaultKind kind = FaultKind::kLateRank;
  std::string text;         // as written; empty: not from text
  int rank = 0;             // of a node: any of its ranks
  double ms = 80;           // kLateRank: each time; kSlowDevice: in a step; kProcessStopped: 0: for ever
  int every = 1;            // kLateRank, kSlowDevice: in the last of this many steps, again and again
  double factor = 4;        // kSlowLink, kFabricErrors, kCongestion: how much longer transfers take
  double per_step = 0.5;    // kPacketLoss: timeouts of the node in a step
  bool computes = true;     // kLateRank, kMissingCollective: false: it sleeps
  bool crosses = false;     // kMissingCollective: it goes on, and calls two communicators in the other order
  int from = 0;             // its first step
  int to = 1'000'000'000;   // the step after its last one
  std::optional<int> unit;  // kLateRank: before this unit's backward pass; none: before the step, as for its data
};

/// What is wrong with a node's clock, in UTC and in all that it records.
struct WrongClock {
  double ahead_s = 0;  // when the job's world begins
  double drift_ppm = 0;
};

struct JobOptions {
  std::string shape = "ddp";  // a name, for truth.json
  Program program = Program::kReplicas;
  int nodes = 2;
  int ranks_per_node = 4;
  int tensor = 1;        // kMesh: ranks of a tensor group
  int stages = 1;        // kMesh: of the pipeline; what remains is data parallel
  bool experts = false;  // kMesh: tensor groups are groups of experts, which exchange uneven work
  int steps = 60;
  int units = 12;          // buckets, wrapped layers or layers
  int micro_batches = 1;   // of a step: gradients are reduced after the last one
  double forward_ms = 40;  // on the device, of a whole model's micro batch
  double backward_ms = 80;
  double launch_ms = 2;             // on the CPU, of one unit
  double noise_ms = 0.3;            // mean of what each launch takes longer by chance, rank by rank
  double device_noise = 0.01;       // scatter of what a device computes, as a share
  double uneven = 0.02;             // scatter of what a data-parallel part computes in a step: its own samples
  double warm_up_ms = 400;          // the first steps take longer by up to that, each rank by its own time
  double transfer_ms = 0;           // of each collective; 0: by its size and the network
  std::vector<int> slow_launchers;  // ranks whose CPU needs half as long again
  std::vector<Pause> pauses;
  double launcher_s = 0;  // when a rank has died, the launcher ends the others this much later; 0: it does not
  int restart_at = 0;     // the launcher ends all ranks in this step and starts them again; 0: never

  bool plugin = false;         // each call has its own end, and the kernels' times
  double attach_s = 0;         // tracing begins this long after the first step, up to 2 s later on each node; 0: before
  double attach_share = 0;     // the same, as a share of the job's time
  bool marked = true;          // NCCL 2.21.5 or newer: attached late, the tracer finds a communicator's name in memory
  double clock_error_ms = 0;   // UTC of a node is wrong by up to that
  double clock_drift_ppm = 0;  // and drifts by up to that; 0: with a clock error, by up to 20 ppm
  std::map<int, WrongClock> clocks;  // of single nodes: that much, instead
  double cut_s = 0;                  // tracing ends this long after the first step; 0: after the job
  double cut_share = 0;              // the same, as a share of the job's time
  double hang_s = 45;                // of a job that hangs: tracing ends this long after it made progress
  bool tcp = true;                   // the network between nodes is TCP; false: not seen
  bool waits = true;                 // the scheduler's waits are recorded
  bool spins = true;                 // a CPU that waits for its device spins, as CUDA's default is
  bool network_events = true;        // needless retransmissions and hiccups
  bool ports = false;                // counters of InfiniBand ports are recorded
  bool all_evidence = false;         // all tables that an agent fills, which make some twice as many rows
  int channels = 2;                  // of a communicator between two nodes: what all_evidence has of transfers
  std::vector<Fault> faults;
  uint64_t seed = 1;

  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};

}  // namespace stalltrace::simulation
