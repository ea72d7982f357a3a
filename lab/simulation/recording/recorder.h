// SPDX-License-Identifier: Apache-2.0
// The rows that the agent of one node writes of a job: what its tracer can see, between its start and its end, in times
// of its node's clock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/simulation/history.h"
#include "lab/simulation/job_options.h"
#include "lab/simulation/program.h"
#include "lab/simulation/recording/transfer_steps.h"

namespace stalltrace::simulation {

class Recorder {
 public:
  Recorder(const JobOptions& options, const Layout& layout, const History& history, int node, int64_t to_ns);

  void write(EventSink& sink) const;
  [[nodiscard]] const SimulatedClock& clock() const { return clock_; }
  /// UTC minus CLOCK_MONOTONIC, when the agent began.
  [[nodiscard]] int64_t clock_offset_ns() const;

 private:
  /// The node's end of a connection, of which either this node or the other one called connect().
  struct ConnectionKey {
    int attempt = 0;
    int group = 0;  // -1: to the store of rank 0
    int src = 0;    // the rank here
    int dst = 0;
    bool dialled = true;
    auto operator<=>(const ConnectionKey&) const = default;
  };

  /// Event ids of the rows of calls: by attempt, rank of the node and call. 0: not recorded.
  struct CallIds {
    std::vector<std::vector<std::vector<EventId>>> ids;
    int first_rank = 0;
    [[nodiscard]] EventId of(int attempt, int rank, uint32_t call) const {
      return ids[static_cast<size_t>(attempt)][static_cast<size_t>(rank - first_rank)][call];
    }
  };
  /// Both ends of a transfer between nodes; without a call where that has not come.
  struct TransferEnds {
    int src = 0;
    int dst = 0;
    uint32_t src_call = 0;
    uint32_t dst_call = 0;
    int src_position = 0;
    int dst_position = 0;
  };
  struct StepRows;
  /// A rank is behind the others of its node, as the agent sees it, from `from_ns` on; its newest call was at
  /// `since_ns`.
  struct Behind {
    int rank = 0;
    int64_t since_ns = 0;
    int64_t from_ns = 0;
    int64_t to_ns = 0;
  };
  /// A reading of stacks.
  struct Sample {
    int64_t time_ns = 0;
    std::vector<int> outside;  // ranks that are behind
  };

  void write_node(EventSink& sink) const;
  void write_processes(EventSink& sink) const;
  CallIds write_calls(EventSink& sink) const;
  void add_set_up(int attempt, int rank, std::vector<Collective>& rows) const;
  /// `numbers`: of each row that is added, its position among the rank's calls.
  void add_calls(int attempt, int rank, std::vector<Collective>& rows, std::vector<uint32_t>& numbers) const;
  [[nodiscard]] Collective row_of(int rank, const RankHistory& history, const Call& call) const;
  void end_row(const RankHistory& history, const Call& call, Collective& row) const;
  [[nodiscard]] std::map<ConnectionKey, uint64_t> connections() const;
  void write_connections(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const;
  void write_tcp_events(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const;
  void write_tcp_samples(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const;
  void write_tcp_bursts(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const;
  void write_waits(EventSink& sink) const;
  void write_transfers(const CallIds& ids, EventSink& sink) const;
  void add_transfer(int attempt, const TransferEnds& ends, const Transfer& transfer, const CallIds& ids,
                    StepRows& rows) const;
  [[nodiscard]] std::vector<Hold> holds_of(int attempt, const Flow& flow, int64_t end_ns) const;
  [[nodiscard]] std::vector<TransferEnds> hung_transfers(int attempt) const;
  [[nodiscard]] Transfer transfer_of(int attempt, const TransferEnds& ends, int64_t free_ns) const;
  void deliver_steps(std::map<int32_t, StepRows>& rows, EventSink& sink) const;
  [[nodiscard]] std::vector<int64_t> host_samples_ns() const;
  void write_host_samples(EventSink& sink) const;
  [[nodiscard]] double seconds_of_fault(size_t fault, int64_t from_ns, int64_t to_ns) const;
  void write_port_counters(EventSink& sink) const;
  void write_stacks(EventSink& sink) const;
  void add_sample(int attempt, const Sample& sample, std::set<std::string>& frames,
                  std::vector<PythonStack>& rows) const;
  [[nodiscard]] std::vector<Behind> ranks_behind(int attempt) const;
  [[nodiscard]] static std::vector<Sample> samples_of(const std::vector<Behind>& behind);
  [[nodiscard]] static int64_t stack_id_of(std::string_view frames);
  /// The frames of the calls of an operation.
  [[nodiscard]] static std::string call_site_of(Operation op);

  [[nodiscard]] bool here(int rank) const { return rank / options_.ranks_per_node == node_; }
  [[nodiscard]] int64_t to_clock(int64_t time_ns) const { return clock_.at(time_ns); }
  [[nodiscard]] CommHash hash_of(int attempt, int group) const;
  /// Whether the rank's communicators are known: from their creation, or by the plugin.
  [[nodiscard]] bool knows_communicators(const RankHistory& rank) const;
  [[nodiscard]] RankSource rank_source(const RankHistory& rank) const;
  [[nodiscard]] std::optional<int64_t> calls_before(const RankHistory& own, int group) const;
  [[nodiscard]] std::span<const uint32_t> flows_here(int attempt) const {
    return history_.attempts[static_cast<size_t>(attempt)].flows_at[static_cast<size_t>(node_)];
  }
  [[nodiscard]] const Flow& flow_of(int attempt, uint32_t index) const {
    return history_.attempts[static_cast<size_t>(attempt)].flows[index];
  }
  [[nodiscard]] const RankHistory& of(int attempt, int rank) const {
    return history_.attempts[static_cast<size_t>(attempt)].ranks[static_cast<size_t>(rank)];
  }

  const JobOptions& options_;
  const Layout& layout_;
  const History& history_;
  int node_;
  int64_t from_ns_;
  int64_t to_ns_;
  SimulatedClock clock_;
};

}  // namespace stalltrace::simulation
