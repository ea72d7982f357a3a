// SPDX-License-Identifier: Apache-2.0
// The agents of a run: one `stalltrace trace` in each virtual node, started before the ranks and ended after them. The
// destructor kills those still running. Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/handle.h"
#include "base/process/subprocess.h"
#include "base/result.h"
#include "lab/cluster/host/interrupt.h"
#include "lab/cluster/host/node.h"

namespace stalltrace::lab {

class Agents {
 public:
  /// Starts one per node; recordings and logs go to `out_dir`. `more_arguments`: those that a node's agent has besides.
  Status start(const std::string& program, std::span<const VirtualNode> nodes, const std::string& out_dir,
               const std::function<std::vector<std::string>(const VirtualNode&)>& more_arguments);

  /// Returns when every agent has written a byte to its ready descriptor.
  Status wait_ready(int64_t limit_ns, InterruptGuard& interrupt);

  /// Sends SIGINT to all and waits for each; returns a line for each one that ended badly.
  std::vector<std::string> stop();

  /// 0: that node has no agent.
  [[nodiscard]] int pid_of(int node) const;
  /// Paths of the recordings that exist.
  [[nodiscard]] std::vector<std::string> recordings() const;
  /// Deletes the recordings of a run that never began.
  void discard_recordings();

 private:
  struct Agent {
    std::string node;
    std::string recording;
    std::string log;
    int pid = 0;
    UniqueFd ready;  // read end
    Subprocess process;
  };

  static Status wait_one(Agent& agent, int64_t deadline_ns, InterruptGuard& interrupt);

  std::vector<Agent> agents_;
};

}  // namespace stalltrace::lab
