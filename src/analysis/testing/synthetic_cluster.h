// SPDX-License-Identifier: Apache-2.0
// A synthetic training job for the tests of analysis: the events that N ranks in a ring would leave in their
// recordings, from a small simulation of steps (compute, launch buckets, synchronise, pause), independent of the rules
// under test. Deterministic by seed.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "analysis/intervals.h"
#include "base/clock.h"
#include "lab/simulation/thread_states.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {

enum class FaultKind { kPacketLoss, kLateRank, kCpuContention, kProcessStopped };

struct Fault {
  FaultKind kind = FaultKind::kPacketLoss;
  int rank = 0;       // packet_loss: the link is rank -> rank + 1
  double from_s = 2;  // after the start of the run
  double to_s = 1e9;
  double late_ms = 80;         // kLateRank
  double stop_ms = 1000;       // kProcessStopped; 0: forever
  double loss_per_step = 0.7;  // probability of a loss in a step
  std::string competitor = "stress-cpu";
};

struct JobOptions {
  int ranks = 4;
  int steps = 200;
  int buckets = 4;
  double step_ms = 40;
  uint32_t seed = 1;
  std::vector<Fault> faults;
  bool noise = true;                      // hiccups, needless retransmits, slow first steps
  bool known_communicator = true;         // false: made before tracing began
  bool separate_boots = false;            // nodes on different hosts
  std::vector<int64_t> clock_offsets_ns;  // per node: error of its UTC
  std::vector<int> unrecorded;            // ranks whose node made no recording
  bool tcp = true;                        // evidence tables
  bool waits = true;
};

using simulation::ThreadStates;

class SyntheticJob {
 public:
  explicit SyntheticJob(JobOptions options);

  /// The recording(s) as one source.
  MemorySource& source() { return source_; }
  [[nodiscard]] static int32_t pid_of(int rank) { return 4000 + 100 * rank; }
  [[nodiscard]] static std::string node_of_rank(int rank) { return "node" + std::to_string(rank); }

 private:
  struct Rank {
    NodeId node = 0;
    int64_t shift_ns = 0;  // of its clock
    int64_t free_ns = 0;   // when its main thread may begin the next step
    int64_t arrival_ns = 0;
    int64_t end_ns = 0;
    bool dead_stop = false;
    ThreadStates main;
    ThreadStates progress;
  };

  void describe();
  void step(int number);
  void compute(Rank& rank, int index, int number);
  int64_t transfer(int number, int64_t start_ns);
  void lose_packets(int link, int64_t& time_ns);
  void needless_retransmits(int64_t from_ns, int64_t to_ns);
  void finish();
  bool active(const Fault& fault, int64_t time_ns) const;
  bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }
  int64_t between_ms(double low, double high);
  void state_change(int link, int64_t time_ns, int state);
  void retransmit(int link, int64_t time_ns);
  bool recorded(int rank) const;
  int next(int rank) const { return (rank + 1) % options_.ranks; }

  JobOptions options_;
  std::mt19937 random_;
  int64_t origin_ns_ = 1'800'000'000LL * kNsPerSecond;
  std::vector<Rank> ranks_;
  std::vector<bool> stop_done_;
  std::vector<Collective> collectives_;
  std::vector<TcpEvent> tcp_events_;
  std::vector<TcpSample> tcp_samples_;
  std::vector<int64_t> bytes_sent_;
  int64_t now_ns_ = 0;
  uint64_t events_ = 0;
  bool hung_ = false;
  MemorySource source_;
};

}  // namespace stalltrace::analysis
