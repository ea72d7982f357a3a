// SPDX-License-Identifier: Apache-2.0
// A failing port of an InfiniBand or RoCE card, as far as a machine without one can simulate it: the node's sysfs tree
// (the lab's own, which its agent reads instead of /sys) shows a port whose error counters rise, while the node's
// outgoing packets pass a token bucket, as on a link that has fallen back to a lower rate. The other nodes' ports count
// data only.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <string>
#include <vector>

#include "base/process/command.h"
#include "base/process/subprocess.h"
#include "lab/cluster/faults/faults.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/network.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"errors", "200", 1, 1'000'000, {}, "that the port counts each second"},
    FaultParameter{"mbit", "100", 1, 100'000, {}, "per second that the node may send"},
};
constexpr std::string_view kPort = "class/infiniband/mlx5_0/ports/1/counters";

/// Counts until it is killed: $0 is the folder, $1 the errors per tenth of a second.
constexpr const char* kCounting =
    "mkdir -p \"$0\"; errors=0; data=0; while true; do errors=$((errors + $1)); data=$((data + 100000)); "
    "echo $errors > \"$0/symbol_error\"; echo $data > \"$0/port_xmit_data\"; sleep 0.1; done";

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const VirtualNode& node = context.node();
  const std::vector<std::string> qdisc = {"ip", "netns", "exec", node.netns, "tc", "qdisc"};
  auto add = qdisc;
  add.insert(add.end(), {"add", "dev", std::string(kInterface), "root", "tbf", "rate",
                         std::string(spec.choice("mbit")) + "mbit", "burst", "64k", "limit", "64m"});
  ST_TRY(run_command(add));
  AppliedFault applied;
  applied.commands.push_back(format_command(add));
  auto remove = qdisc;
  remove.insert(remove.end(), {"del", "dev", std::string(kInterface), "root"});
  applied.undo.push_back({UndoKind::kCommand, remove});

  const auto tenth = std::max(1L, std::lround(spec.number("errors") / 10));
  for (const VirtualNode& counted :
       one_per_node(context.nodes)) {  // errors mean something beside ports that count none
    SpawnOptions counting;
    counting.argv = {"sh", "-c", kCounting, fmt::format("{}/{}", sysfs_of(counted), kPort),
                     std::to_string(counted.number == node.number ? tenth : 0)};
    counting.stdin_path = counting.stdout_path = counting.stderr_path = "/dev/null";
    counting.own_process_group = true;
    counting.parent_death_signal = context.outlives_caller ? 0 : SIGKILL;
    auto child = Subprocess::spawn(counting);
    if (!child) {
      (void)undo_all(applied.undo);
      return std::unexpected(std::move(child.error()));
    }
    applied.commands.push_back(format_command(counting.argv));
    applied.undo.push_back(undo_for_process(UndoKind::kKill, child->detach()));
  }
  return applied;
}

}  // namespace

FaultRow fabric_errors_row() {
  return {.cause = "fabric_errors",
          .summary = "a node's InfiniBand port, of a made-up sysfs tree, counts errors, and what it sends is slow",
          .example = "fabric_errors:rank=1,errors=200",
          .parameters = kParameters,
          .pulse = "",
          .apply = apply,
          .of_node = true};
}

}  // namespace stalltrace::lab
