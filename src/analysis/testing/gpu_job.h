// SPDX-License-Identifier: Apache-2.0
// Training jobs on GPUs as a tracer without the profiler plugin sees them: calls launch work and return, the CPU runs
// ahead of its device, and one synchronisation at the end of a step is the end of all its calls. Made by a small model
// of CPUs, devices and one communication stream each, not from the rules under test. Deterministic by seed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {

struct GpuJobOptions {
  enum class Shape : uint8_t {
    kDataParallel,  // one AllReduce a unit, through the backward pass
    kShardedData,   // as FSDP: AllGathers are launched a unit ahead, a ReduceScatter follows each unit's backward pass
  };
  Shape shape = Shape::kDataParallel;
  int ranks = 64;
  int ranks_per_node = 8;
  int steps = 40;
  int units = 20;                        // buckets, or wrapped layers
  double forward_ms = 100;               // on the device, of a whole step
  double compute_ms = 10;                // on the device, of one unit's backward pass
  double launch_ms = 10;                 // on the CPU, of one unit; less than compute_ms: the CPU runs ahead
  double transfer_ms = 4;                // of one collective
  double noise_ms = 0.5;                 // mean of what each launch takes longer by chance, rank by rank
  double device_noise = 0.01;            // scatter of what the device computes, as a share
  std::vector<int> slow_launchers = {};  // ranks whose CPU needs half as long again
  int late_rank = -1;                    // which pauses ...
  double late_ms = 80;                   // ... for this long ...
  int late_every = 4;                    // ... in the last of this many steps, again and again ...
  int late_unit = -1;                    // ... before this unit's backward pass; -1: before the step, as for its data
  double loss_ms = 0;                    // a transfer in the middle of the step takes this much longer ...
  int loss_every = 4;                    // ... in the last of this many steps
  uint32_t seed = 1;
};

class GpuJob {
 public:
  static constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;

  explicit GpuJob(GpuJobOptions options);

  /// The recordings of all nodes as one source.
  MemorySource& source() { return source_; }
  /// How long the steps took, from the first launch to the last synchronisation.
  [[nodiscard]] int64_t length_ns() const { return now_ns_ - kOriginNs; }

 private:
  struct Rank {
    int64_t cpu_ns = 0;             // when its CPU is free
    int64_t device_ns = 0;          // when its device has done what was launched
    std::vector<Collective> calls;  // of the step
  };

  void describe();
  void step(int number);
  void compute(double device_ms, int64_t needs_ns);
  int64_t collective(Operation op, bool after_compute, double extra_ms);
  void synchronise();
  [[nodiscard]] NodeId node_of(int rank) const { return static_cast<NodeId>(1 + rank / options_.ranks_per_node); }
  [[nodiscard]] static int32_t pid_of(int rank) { return 1000 + rank; }
  int64_t noise_ns();

  GpuJobOptions options_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
  int64_t now_ns_ = kOriginNs;  // the last synchronisation
  int64_t stream_ns_ = 0;       // when the communication streams have done what was launched
  int64_t calls_ = 0;           // of each rank
  uint64_t events_ = 0;
  MemorySource source_;
};

}  // namespace stalltrace::analysis
