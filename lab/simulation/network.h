// SPDX-License-Identifier: Apache-2.0
// How long communication takes between the devices of a cluster, and which data go over the network for it: a ring over
// the ranks of a group, whose neighbours on one node do not need the network.
#pragma once

#include <cstdint>
#include <vector>

#include "lab/simulation/history.h"
#include "lab/simulation/job_options.h"
#include "lab/simulation/program.h"
#include "lab/simulation/random.h"

namespace stalltrace::simulation {

class Network {
 public:
  Network(const JobOptions& options, const Layout& layout);

  /// All devices of the group are ready at `begin_ns`. Returns the end; adds what the network saw to `attempt`.
  int64_t collective(int group, Operation op, int64_t bytes, int64_t begin_ns, int step, Attempt& attempt);
  int64_t send(int group, int src, int dst, int64_t bytes, int64_t begin_ns, int step, Attempt& attempt);

  [[nodiscard]] int node_of(int rank) const { return rank / options_.ranks_per_node; }

  /// The neighbours of a group's ring that are on different nodes.
  struct Edge {
    int src = 0;
    int dst = 0;
  };
  [[nodiscard]] const std::vector<Edge>& edges(int group) const { return edges_[static_cast<size_t>(group)]; }

 private:
  int64_t transfer(int group, const std::vector<Edge>& edges, int64_t bytes, int64_t begin_ns, int step,
                   Attempt& attempt);
  int64_t lose(const Edge& edge, int group, int64_t from_ns, Attempt& attempt);

  const JobOptions& options_;
  std::vector<std::vector<Edge>> edges_;
  Random random_;
};

}  // namespace stalltrace::simulation
