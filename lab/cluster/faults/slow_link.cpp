// SPDX-License-Identifier: Apache-2.0
// A slow link: a node's outgoing packets pass a token bucket, whose queue is long enough to lose nothing.
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
    FaultParameter{"mbit", "40", 1, 100'000, {}, "per second that the node may send"},
};
constexpr std::string_view kBurst = "64k";
constexpr std::string_view kQueue = "64m";

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const VirtualNode& node = context.node();
  const std::vector<std::string> qdisc = {"ip", "netns", "exec", node.netns, "tc", "qdisc"};
  auto add = qdisc;
  add.insert(add.end(),
             {"add", "dev", std::string(kInterface), "root", "tbf", "rate", std::string(spec.choice("mbit")) + "mbit",
              "burst", std::string(kBurst), "limit", std::string(kQueue)});
  ST_TRY(run_command(add));
  AppliedFault applied;
  applied.commands.push_back(format_command(add));
  auto remove = qdisc;
  remove.insert(remove.end(), {"del", "dev", std::string(kInterface), "root"});
  applied.undo.push_back({UndoKind::kCommand, remove});
  return applied;
}

}  // namespace

FaultRow slow_link_row() {
  return {.cause = "slow_link",
          .summary = "what a node sends is limited to a rate",
          .example = "slow_link:rank=2,mbit=40",
          .parameters = kParameters,
          .pulse = "",
          .apply = apply,
          .onset = Onset::kAny,
          .of_node = true};
}

}  // namespace stalltrace::lab
