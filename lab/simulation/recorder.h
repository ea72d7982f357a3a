// SPDX-License-Identifier: Apache-2.0
// The rows that the agent of one node writes of a job: what its tracer can see, between its start and its end, in times
// of its node's clock.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lab/simulation/history.h"
#include "lab/simulation/job_options.h"
#include "lab/simulation/program.h"

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

  void write_node(EventSink& sink) const;
  void write_processes(EventSink& sink) const;
  void write_calls(EventSink& sink) const;
  void add_set_up(int attempt, int rank, std::vector<Collective>& rows) const;
  void add_calls(int attempt, int rank, std::vector<Collective>& rows) const;
  [[nodiscard]] Collective row_of(int rank, const RankHistory& history, const Call& call) const;
  void end_row(const RankHistory& history, const Call& call, Collective& row) const;
  [[nodiscard]] std::map<ConnectionKey, uint64_t> connections() const;
  void write_connections(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const;
  void write_tcp_events(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const;
  void write_tcp_samples(const std::map<ConnectionKey, uint64_t>& connections, EventSink& sink) const;
  void write_waits(EventSink& sink) const;

  [[nodiscard]] bool here(int rank) const { return rank / options_.ranks_per_node == node_; }
  [[nodiscard]] int64_t to_clock(int64_t time_ns) const { return clock_.at(time_ns); }
  [[nodiscard]] CommHash hash_of(int attempt, int group) const;
  /// Whether the rank's communicators are known: from their creation, or by the plugin.
  [[nodiscard]] bool knows_communicators(const RankHistory& rank) const;
  [[nodiscard]] RankSource rank_source(const RankHistory& rank) const;
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
