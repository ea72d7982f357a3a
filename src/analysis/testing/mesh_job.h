// SPDX-License-Identifier: Apache-2.0
// A healthy training job on GPUs whose ranks form a mesh: tensor groups, whose ranks exchange data in each layer, and
// data groups across them, which reduce gradients during the last backward pass. Made by a small model of CPUs and
// devices, not from the rules under test. Deterministic by seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {

struct MeshJobOptions {
  int tensor = 4;  // ranks of a tensor group, which is a node
  int data = 4;    // tensor groups
  int layers = 8;
  int steps = 24;
  int micro_batches = 1;        // of a step: gradients are reduced after the last one
  double compute_ms = 4;        // of a layer, on the device; backward takes twice as long
  double launch_ms = 1;         // of a layer, on the CPU
  double transfer_ms = 1;       // of one collective
  double noise_ms = 0.2;        // mean of what each launch takes longer by chance
  double uneven = 0.02;         // scatter of what a tensor group computes in a step: its own samples
  bool experts = false;         // an AllToAll before and after each layer, whose ranks have uneven work
  int evaluate_every = 0;       // steps; 0: never. All ranks, without a collective except one at the end ...
  double evaluate_ms = 3000;    // ... for so long
  bool evaluate_rank0 = false;  // rank 0 alone evaluates, while the others wait for it
  bool plugin = false;          // each call has its own end
  bool attached_late = false;   // nobody knows the communicators, and each node's tracer began at another time
  int slow_call = -1;           // of every data group: the transfer of that call (from 1) takes ...
  int slow_device_step = -1;    // in it the device of rank 1 takes ...
  double slow_ms = 0;           // ... longer by so much
  uint32_t seed = 1;
};

class MeshJob {
 public:
  explicit MeshJob(MeshJobOptions options);

  MemorySource& source() { return source_; }
  [[nodiscard]] int ranks() const { return options_.tensor * options_.data; }

 private:
  struct Rank {
    int64_t cpu_ns = 0;
    int64_t device_ns = 0;
    int64_t stream_ns = 0;          // of communication beside the device's work
    std::vector<Collective> calls;  // not ended yet
    std::vector<int64_t> own_end_ns;
  };
  /// Ranks `first`, `first` + `stride`, ...
  struct Communicator {
    int id = 0;
    int first = 0;
    int stride = 1;
    int ranks = 1;
    int64_t calls = 0;
  };

  void describe();
  void step(int number);
  void layer(bool backward, bool last, double work);
  void collective(Communicator& group, Operation op, int64_t count, bool blocking);
  void synchronise();
  void evaluate();
  int64_t noise_ns();
  [[nodiscard]] NodeId node_of(int rank) const { return static_cast<NodeId>(1 + rank / options_.tensor); }

  MeshJobOptions options_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
  std::vector<Communicator> tensor_groups_;
  std::vector<Communicator> data_groups_;
  Communicator world_;
  std::vector<double> pace_;  // of each tensor group, in this step
  uint64_t events_ = 0;
  MemorySource source_;
};

}  // namespace stalltrace::analysis
