// SPDX-License-Identifier: Apache-2.0
// What happened in a simulated job, in true time: before clocks, tracers and their limits. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "lab/simulation/thread_states.h"
#include "model/events.h"

namespace stalltrace::simulation {

inline constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;
/// UTC as a node has it.
struct SimulatedClock {
  int64_t error_ns = 0;  // at kOriginNs
  double drift = 0;      // of each ns since

  [[nodiscard]] int64_t at(int64_t time_ns) const {
    return time_ns + error_ns + static_cast<int64_t>(drift * static_cast<double>(time_ns - kOriginNs));
  }
};
/// Later than all else: the end of what hangs.
inline constexpr int64_t kNever = INT64_MAX / 4;

/// One call of one rank.
struct Call {
  int group = 0;
  Operation op = Operation::kAllReduce;
  int position = 0;  // of the rank in the group
  int peer = -1;     // of a Send or Recv: its position
  int64_t number = 0;
  int64_t count = 0;
  int64_t arrival_ns = 0;
  int64_t kernel_ns = 0;       // the device begins it
  int64_t end_ns = kNever;     // its own
  int64_t sync_ns = kNever;    // the CPU learns of it
  uint64_t library_group = 0;  // ncclGroupStart to ncclGroupEnd
};

/// Data that went from one rank to another on another node.
struct Flow {
  int src = 0;
  int dst = 0;
  int group = 0;
  int64_t from_ns = 0;
  int64_t to_ns = 0;
  int64_t bytes = 0;
  double busy = 1;           // the share of that time in which the sender had something to send
  int64_t lost_from_ns = 0;  // until the loss was repaired, no byte was acknowledged
  int64_t lost_to_ns = 0;
  int64_t held_from_ns = 0;  // a loss, of this data or elsewhere on the ring, kept all of it from going on
  int64_t held_to_ns = 0;
  uint32_t src_call = 0;  // of RankHistory::calls of the sender
  uint32_t dst_call = 0;
};

/// What the sender's kernel does beside sending.
struct FlowEvent {
  int src = 0;
  int dst = 0;
  int group = 0;
  int64_t time_ns = 0;
  bool retransmit = false;  // else a change to `state`
  int state = 0;            // 0 open, 1 disorder, 3 recovery, 4 loss
};

struct RankHistory {
  int32_t pid = 0;
  int64_t started_ns = 0;
  std::vector<Call> calls;
  ThreadStates main;
  ThreadStates progress;
  std::vector<std::pair<int64_t, int64_t>> stopped;  // [from, to) in which its threads were stopped
  std::optional<int64_t> exit_ns;
  int exit_code = 0;
  int exit_signal = 0;
  bool stuck = false;   // in a wait that never ends
  int64_t last_ns = 0;  // the last time at which it did anything
  int64_t steps = 0;    // that it finished
};

/// The processes between two starts of the job.
struct Attempt {
  std::vector<RankHistory> ranks;
  std::vector<Flow> flows;
  std::vector<FlowEvent> flow_events;
  std::vector<std::vector<uint32_t>> flows_at;  // by node: indices of the flows that leave or reach it, in their order

  void sort_flows(int nodes, int ranks_per_node) {
    flows_at.assign(static_cast<size_t>(nodes), {});
    for (uint32_t i = 0; i < flows.size(); ++i) {
      const int src = flows[i].src / ranks_per_node;
      const int dst = flows[i].dst / ranks_per_node;
      flows_at[static_cast<size_t>(src)].push_back(i);
      if (dst != src) {
        flows_at[static_cast<size_t>(dst)].push_back(i);
      }
    }
  }
};

/// [from_ns, to_ns) in which a fault was in effect.
struct Effect {
  size_t fault = 0;  // index in JobOptions::faults
  int64_t from_ns = 0;
  int64_t to_ns = 0;
};

struct History {
  std::vector<Attempt> attempts;
  std::vector<Effect> effects;
  int64_t first_step_ns = 0;
  int64_t ended_ns = 0;  // of the job; of one that hangs: of its progress
  bool hung = false;
};

}  // namespace stalltrace::simulation
