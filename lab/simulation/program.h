// SPDX-License-Identifier: Apache-2.0
// What a rank does in a step, as instructions for its CPU, its device and the communication library. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "lab/simulation/job_options.h"
#include "model/operation.h"

namespace stalltrace::simulation {

/// The ranks of a communicator, by their position in it.
struct Group {
  std::vector<int> ranks;
  bool on_main_stream = false;  // its collectives are part of the device's own work: tensor parallelism
};

/// All communicators of a job, and those of each rank; -1 where it has none.
struct Layout {
  struct Position {
    int tensor_group = -1;
    int data_group = -1;
    int pipeline_group = -1;
    int stage = 0;
    int data_index = 0;  // which part of the batch
  };
  std::vector<Group> groups;
  std::vector<Position> positions;
  int world = 0;

  static Layout of(const JobOptions& options);
};

struct Instruction {
  enum class Kind : uint8_t {
    kCpu,          // the CPU works for `ms` ...
    kUnit,         // the backward pass of `unit` begins: where a fault may pause the CPU
    kDevice,       // the device gets work of `ms`
    kCollective,   // of `group`
    kExchange,     // Sends and Recvs that the library makes one kernel of
    kJoin,         // the device's work waits for the communication launched so far
    kSynchronise,  // the CPU waits for the device
  };
  struct Peer {
    bool send = false;
    int position = 0;  // in the group
  };
  Kind kind = Kind::kCpu;
  double ms = 0;
  int unit = 0;
  int group = -1;
  Operation op = Operation::kAllReduce;
  int64_t count = 0;
  bool after_device = true;  // the communication needs the device's work so far
  int needs = -1;            // kDevice: begins after the collective with this index among the step's instructions
  std::vector<Peer> peers;   // kExchange
};

/// The random parts of one step of one rank, drawn by the machine.
struct StepLoad {
  double device = 1;            // factor on what the device computes
  double cpu = 1;               // factor on what the CPU needs for a launch
  std::vector<double> experts;  // factor on each unit, forward and then backward; empty: none
};

std::vector<Instruction> program_of(const JobOptions& options, const Layout& layout, int rank, const StepLoad& load);

}  // namespace stalltrace::simulation
