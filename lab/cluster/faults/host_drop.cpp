// SPDX-License-Identifier: Apache-2.0
// Packets dropped inside a host: the queue of the node's interface is shorter than the job's bursts.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "base/process/command.h"
#include "lab/cluster/faults/faults.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/network.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"mbit", "200", 1, 100'000, {}, "per second at which the queue is emptied"},
    FaultParameter{"limit", "24", 2, 100'000, {}, "kilobytes that the queue holds"},
};
constexpr std::string_view kBurst = "16k";

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const VirtualNode& node = context.node();
  const std::vector<std::string> qdisc = {"ip", "netns", "exec", node.netns, "tc", "qdisc"};
  auto add = qdisc;
  add.insert(add.end(),
             {"add", "dev", std::string(kInterface), "root", "tbf", "rate", std::string(spec.choice("mbit")) + "mbit",
              "burst", std::string(kBurst), "limit", std::string(spec.choice("limit")) + "k"});
  ST_TRY(run_command(add));
  AppliedFault applied;
  applied.commands.push_back(format_command(add));
  auto remove = qdisc;
  remove.insert(remove.end(), {"del", "dev", std::string(kInterface), "root"});
  applied.undo.push_back({UndoKind::kCommand, remove});
  return applied;
}

}  // namespace

FaultRow host_drop_row() {
  return {.cause = "host_drop",
          .summary = "the queue of a node's network interface overflows",
          .example = "host_drop:rank=2,mbit=200,limit=24",
          .parameters = kParameters,
          .pulse = "",
          .apply = apply,
          .of_node = true};
}

}  // namespace stalltrace::lab
