// SPDX-License-Identifier: Apache-2.0
// Runs of a healthy job, each with its own processes, on communicators with one name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {

struct JobRun {
  int32_t first_pid = 100;  // rank 0's; the others follow
  int32_t ranks = 2;
  int64_t begin_ns = 0;  // first call
  int64_t steps = 100;
  CommHash hash = 77;
  std::vector<NodeId> nodes = {1};  // ranks are assigned in turn
  int32_t first_rank = 0;           // rank of the first process: ranks may be permuted
  uint32_t seed = 1;                // scatter of its steps
  bool process_rows = true;
  int32_t exit_code = 0;
  std::string job_id = "none";
  /// Selects the recorded calls; false drops one.
  std::function<bool(int32_t rank, int64_t step, Collective&)> call = [](int32_t, int64_t, Collective&) {
    return true;
  };

  [[nodiscard]] int32_t rank_of(int32_t index) const { return (first_rank + index) % ranks; }
  [[nodiscard]] NodeId node_of(int32_t index) const { return nodes[static_cast<size_t>(index) % nodes.size()]; }
};

/// Recordings of nodes on their own hosts, or on one. `clock_errors_ns`: by node.
class JobRuns {
 public:
  static constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;

  explicit JobRuns(std::vector<int64_t> clock_errors_ns = {0}, bool one_host = false)
      : errors_ns_(std::move(clock_errors_ns)) {
    for (NodeId i = 1; i <= errors_ns_.size(); ++i) {
      Node node{.node_id = i, .name = "node" + std::to_string(i)};
      node.boot_id = one_host ? "boot" : node.name;
      node.started_ns = kOriginNs + errors_ns_[i - 1];
      node.ended_ns = node.started_ns + 600 * kNsPerSecond;
      source.accept(node);
    }
  }

  /// Adds a run; returns when its processes ended, on the time scale of begin_ns.
  int64_t add(const JobRun& run) {
    std::mt19937 random(run.seed);
    int64_t now_ns = kOriginNs + run.begin_ns;
    for (int64_t step = 0; step < run.steps; ++step) {
      now_ns += kStepNs + static_cast<int64_t>(random() % 10'000) * kNsPerUs;
      for (int32_t i = 0; i < run.ranks; ++i) {
        add_call(run, i, step, now_ns + run.rank_of(i) * 100 * kNsPerUs, now_ns + 5 * kNsPerMs);
      }
    }
    const int64_t end_ns = now_ns + kNsPerSecond;
    for (int32_t i = 0; i < run.ranks; ++i) {
      describe(run, i, end_ns);
    }
    return end_ns - kOriginNs;
  }

  MemorySource source;

 private:
  static constexpr int64_t kStepNs = 30 * kNsPerMs;

  [[nodiscard]] int64_t by_clock_of(NodeId node, int64_t time_ns) const { return time_ns + errors_ns_[node - 1]; }

  void describe(const JobRun& run, int32_t i, int64_t end_ns) {
    const NodeId node = run.node_of(i);
    const int32_t pid = run.first_pid + i;
    const int64_t start_ns = by_clock_of(node, kOriginNs + run.begin_ns - kNsPerSecond + i * kNsPerMs);
    if (run.process_rows) {
      Process process{.node_id = node, .pid = pid, .start_ns = start_ns, .exe = "/opt/job/train"};
      process.rank = run.rank_of(i);
      process.rank_source = RankSource::kEnvironment;
      process.world_size = run.ranks;
      process.job_id = run.job_id;
      process.exit_ns = by_clock_of(node, end_ns) + i * kNsPerMs;
      process.exit_code = run.exit_code;
      source.accept(process);
    }
    if (run.hash != 0) {
      Communicator row{.node_id = node, .pid = pid, .comm_ptr = 0xc000, .comm_id_hash = run.hash};
      row.rank = run.rank_of(i);
      row.nranks = run.ranks;
      row.created_ns = start_ns + kNsPerSecond / 2;
      source.accept(row);
    }
  }

  void add_call(const JobRun& run, int32_t i, int64_t step, int64_t arrival_ns, int64_t end_ns) {
    const NodeId node = run.node_of(i);
    Collective call{.event_id = make_event_id(node, ++events_), .node_id = node};
    call.timestamp_ns = by_clock_of(node, arrival_ns);
    call.duration_ns = end_ns - arrival_ns;
    call.completion = Completion::kCall;
    call.library = Library::kGloo;
    call.seq = step;
    call.rank = run.rank_of(i);
    call.nranks = run.ranks;
    call.comm_id_hash = run.hash;
    call.comm_ptr = 0xc000;
    call.pid = call.tid = run.first_pid + i;
    call.bytes = 1 << 20;
    if (run.call(run.rank_of(i), step, call)) {
      source.accept(call);
    }
  }

  std::vector<int64_t> errors_ns_;
  uint64_t events_ = 0;
};

}  // namespace stalltrace::analysis
