// SPDX-License-Identifier: Apache-2.0
// A failing set-up: a firewall on rank 0's node blocks one rank, at the port of the rendezvous or at NCCL's own, which
// rank 0 opens anew for each communicator; or the rank is configured to use an interface that leads nowhere. In effect
// before the ranks start.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "base/process/command.h"
#include "lab/cluster/faults/faults.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/network.h"
#include "lab/cluster/workload.h"

namespace stalltrace::lab {
namespace {

constexpr std::array<std::string_view, 2> kPorts = {"rendezvous", "nccl"};
constexpr std::array<std::string_view, 4> kHow = {"reject", "drop", "interface", "network"};
constexpr std::array kParameters = {
    FaultParameter{"port", "rendezvous", 0, 0, kPorts, "MASTER_PORT, or all others"},
    FaultParameter{
        "how", "reject", 0, 0, kHow,
        "the firewall treats connections; interface: the rank is configured to use lo instead; network: one on "
        "a network that others don't reach"},
};

constexpr std::string_view kOtherInterface = "other0";
constexpr std::string_view kOtherNetwork = "10.66.0.0/24";

/// Runs the command, and records how to undo it.
Status change(const std::vector<std::string>& command, const std::vector<std::string>& undo, AppliedFault& applied) {
  ST_TRY(run_command(command));
  applied.commands.push_back(format_command(command));
  applied.undo.push_back({UndoKind::kCommand, undo});
  return {};
}

/// Adds a second network to the rank's node. All nodes have a route to it by way of a router that does not know it:
/// connections to it are never answered.
Status add_other_network(const FaultContext& context, AppliedFault& applied) {
  const auto in = [](const VirtualNode& node, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"ip", "-n", node.netns});
    return arguments;
  };
  const VirtualNode& own = context.node();
  const std::string name(kOtherInterface);
  ST_TRY(change(in(own, {"link", "add", name, "type", "bridge"}), in(own, {"link", "del", name}), applied));
  ST_TRY(run_command(in(own, {"addr", "add", fmt::format("10.66.0.{}/24", own.number + 1), "dev", name})));
  ST_TRY(run_command(in(own, {"link", "set", name, "up"})));
  const std::string network(kOtherNetwork);
  for (const VirtualNode& node : one_per_node(context.nodes)) {
    if (node.number != own.number) {
      ST_TRY(change(in(node, {"route", "add", network, "via", std::string(kRouter)}),
                    in(node, {"route", "del", network}), applied));
    }
  }
  return {};
}

Result<AppliedFault> choose_other_network(const FaultContext& context) {
  ST_ASSIGN(AppliedFault applied, apply_bug(context.node(), "interface", kOtherInterface));
  if (Status added = add_other_network(context, applied); !added) {
    (void)undo_all(applied.undo);
    return std::unexpected(added.error());
  }
  return applied;
}

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  if (spec.choice("how") == "interface") {
    return apply_bug(context.node(), "interface", "lo");
  }
  if (spec.choice("how") == "network") {
    return choose_other_network(context);
  }
  if (context.node().number == 0) {
    return fail(fmt::format("fault '{}': rank 0 is who the others connect to", spec.text),
                "name a rank on another node", ErrorKind::kUsage);
  }
  if (context.node().local_ranks > 1) {
    return fail(fmt::format("fault '{}': the firewall would keep out all ranks of {}", spec.text, context.node().name),
                "give how=interface or how=network, or one rank a node", ErrorKind::kUsage);
  }
  const VirtualNode& master = context.nodes.front();
  const std::string table = fmt::format("stalltrace_{}", context.number);
  const std::vector<std::string> inside = {"ip", "netns", "exec", master.netns, "nft"};
  auto add = inside;
  add.push_back(
      fmt::format("add table inet {0}; add counter inet {0} dropped; add chain inet {0} faults {{ type filter "
                  "hook input priority 0; policy accept; }}; add rule inet {0} faults ip saddr {1} tcp dport "
                  "{2} {3} counter name dropped {4}",
                  table, context.node().address, spec.choice("port") == "nccl" ? "!=" : "==", kMasterPort,
                  spec.choice("how") == "drop" ? "drop" : "reject with tcp reset"));
  ST_TRY(run_command(add));
  AppliedFault applied;
  applied.commands.push_back(format_command(add));
  auto remove = inside;
  remove.insert(remove.end(), {"delete", "table", "inet", table});
  applied.undo.push_back({UndoKind::kCommand, remove});
  applied.drops = PacketCounter{master.netns, "inet", table};
  return applied;
}

}  // namespace

FaultRow init_failure_row() {
  return {"init_failure",
          "a firewall keeps a rank from joining the job",
          "init_failure:rank=2,port=nccl",
          kParameters,
          "",
          apply,
          Onset::kLaunch};
}

}  // namespace stalltrace::lab
