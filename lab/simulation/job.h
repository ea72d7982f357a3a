// SPDX-License-Identifier: Apache-2.0
// A simulated job and its recordings: what the agent of each node would have written, with that node's clock, from the
// moment at which it was attached. Deterministic by seed: the same options give the same rows on every machine.
#pragma once

#include <string>

#include "lab/simulation/history.h"
#include "lab/simulation/job_options.h"
#include "lab/simulation/program.h"
#include "model/events.h"

namespace stalltrace::simulation {

class Job {
 public:
  /// Plays the whole job: some ten million calls a minute.
  explicit Job(JobOptions options);

  /// The rows of one node's recording, each type in the order of time.
  void record(int node, EventSink& sink) const;
  /// Those of all nodes.
  void record_all(EventSink& sink) const;

  [[nodiscard]] const JobOptions& options() const { return options_; }
  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] static std::string node_name(int node) { return "node" + std::to_string(node); }
  [[nodiscard]] static std::string address_of(int node);
  [[nodiscard]] static NodeId node_id(int node) { return static_cast<NodeId>(node + 1); }
  /// UTC as the node has it, with its errors.
  [[nodiscard]] SimulatedClock clock(int node) const;
  /// CLOCK_MONOTONIC of the node at a true time: its rows' times are made of it.
  [[nodiscard]] int64_t monotonic_ns(int node, int64_t time_ns) const;
  [[nodiscard]] static std::string boot_id(int node) { return "boot-" + node_name(node); }
  /// When all recordings have ended, in true time.
  [[nodiscard]] int64_t recorded_to_ns() const { return recorded_to_ns_; }

 private:
  void play();
  void end_processes(Attempt& attempt);

  JobOptions options_;
  Layout layout_;
  History history_;
  int64_t recorded_to_ns_ = 0;
};

}  // namespace stalltrace::simulation
