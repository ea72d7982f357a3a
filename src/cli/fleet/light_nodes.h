// SPDX-License-Identifier: Apache-2.0
// `lab simulate --serve`: many nodes in one process, each on a loopback address of its own, with what can be wrong with
// a node.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/handle.h"
#include "base/result.h"
#include "cli/fleet/node_trouble.h"
#include "cli/fleet/silent_nodes.h"
#include "serve/host_clock.h"

namespace stalltrace::cli {

class LightNodes {
 public:
  /// Node i, from 0, listens at 127.7.(i / 250).(i % 250 + 1), at a port that the kernel chooses.
  static Result<LightNodes> listen(int nodes, std::map<int, NodeTrouble> troubles);

  /// "127.7.0.1:40112", one for each node, also for those that are down.
  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }

  /// File i is node i's. Gives up all rights that reading them does not need, and serves until SIGINT, SIGTERM or
  /// SIGHUP, which end the process. `announce` is called once it serves. `clock_of`: what a node answers of its clock,
  /// by several threads at once; null: what this host's is.
  [[nodiscard]] Status serve(const std::vector<std::string>& files, const std::function<void()>& announce,
                             const std::function<serve::HostClock(int node)>& clock_of = nullptr);

 private:
  std::vector<std::string> addresses_;
  std::vector<UniqueFd> sockets_;
  std::vector<int> nodes_;  // of each socket
  SilentNodes silent_;
  std::map<int, NodeTrouble> troubles_;
};

}  // namespace stalltrace::cli
