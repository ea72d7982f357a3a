// SPDX-License-Identifier: Apache-2.0
// Plays the programs of all ranks: CPUs that launch work and run ahead, devices and streams that do it in order,
// collectives that begin when the last device is ready. Not made from the rules under test. Deterministic by seed.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "lab/simulation/history.h"
#include "lab/simulation/job_options.h"
#include "lab/simulation/network.h"
#include "lab/simulation/program.h"
#include "lab/simulation/random.h"

namespace stalltrace::simulation {

class Machine {
 public:
  /// Steps [from_step, to_step) of processes that begin their first step at `begin_ns`.
  Machine(const JobOptions& options, const Layout& layout, int attempt, int64_t begin_ns, int from_step, int to_step);

  /// Plays all; once.
  void run();

  [[nodiscard]] Attempt& attempt() { return attempt_; }
  [[nodiscard]] std::vector<Effect>& effects() { return effects_; }
  [[nodiscard]] bool hung() const { return hung_; }

 private:
  static constexpr size_t kStreams = 4;  // world, tensor, data, pipeline

  struct Rank {
    Random random;
    int step = 0;
    size_t at = 0;  // next instruction
    std::vector<Instruction> program;
    std::vector<int64_t> ends_ns;  // by instruction
    int64_t cpu_ns = 0;
    int64_t device_ns = 0;
    std::array<int64_t, kStreams> streams_ns{};
    size_t first_unsynchronised = 0;
    int awaited = 0;  // calls that have to be resolved before it goes on
    bool ended = false;
    bool stopped_for_ever = false;
    std::vector<std::pair<int64_t, int64_t>> stopped;  // its threads
  };
  struct Joined {
    int rank = 0;
    size_t call = 0;
    size_t instruction = 0;
  };
  /// The calls of all ranks of a group, or of both ends of a pair, under one number.
  struct Meeting {
    std::vector<Joined> joined;
    bool mismatched = false;
  };
  struct Channel {
    int64_t first = 0;
    std::deque<Meeting> meetings;
    std::vector<int64_t> next;  // number of each member's next call
  };
  /// Of a group: {group, -1, -1}; of a pair: {group, source, destination}, by position.
  using ChannelKey = std::array<int, 3>;

  void advance(int rank);
  bool begin_step(int rank);
  /// False where the rank goes no further.
  bool execute(int rank, const Instruction& instruction);
  void launch(int rank, double mean_ms);
  void device(Rank& rank, const Instruction& instruction, double extra_ms);
  void collective(int rank, const Instruction& instruction);
  void exchange(int rank, const Instruction& instruction);
  size_t add_call(int rank, const Instruction& instruction, int64_t kernel_ns);
  void join(int rank, const ChannelKey& key, size_t member, size_t members, size_t call, bool mismatched);
  void resolve(const ChannelKey& key, const Meeting& meeting);
  void note_calls(const Meeting& meeting, size_t first_flow);
  void synchronise(int rank);
  bool give_up_waiting();
  void late(int rank, std::optional<int> unit);
  bool fail_in_step(int rank);
  void cross(int rank);
  void die(int rank, size_t fault);
  [[nodiscard]] bool in_effect(const Fault& fault, int step) const;
  void add_effect(size_t fault, int64_t from_ns, int64_t to_ns);
  [[nodiscard]] size_t stream_of(int rank, int group) const;
  [[nodiscard]] StepLoad load_of(int rank, int step);
  [[nodiscard]] double pause_ms(const Pause& pause, int rank, int step) const;
  RankHistory& history(int rank) { return attempt_.ranks[static_cast<size_t>(rank)]; }
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  const JobOptions& options_;
  const Layout& layout_;
  int from_step_;
  int to_step_;
  Network network_;
  std::vector<Rank> ranks_;
  std::map<ChannelKey, Channel> channels_;
  std::deque<int> ready_;
  Attempt attempt_;
  std::vector<Effect> effects_;
  uint64_t library_groups_ = 0;
  std::vector<uint32_t> call_of_;  // by rank, of the meeting that is noted
  bool hung_ = false;
};

}  // namespace stalltrace::simulation
