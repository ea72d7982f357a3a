// SPDX-License-Identifier: Apache-2.0
// Packet loss: nftables drops TCP packets at random, on the way into a node, on the way out, or on the way in from one
// peer only. What comes in is dropped in the node's own namespace. What goes out is dropped where the node's link
// enters the bridge: a drop in the node itself would be told to its TCP at once, which is no loss at all. A dropped
// packet may be a batch of segments that the virtual link had not split yet: the counter counts packets as the hook
// sees them.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "lab/cluster/command.h"
#include "lab/cluster/faults/faults.h"
#include "lab/cluster/network.h"

namespace stalltrace::lab {
namespace {

constexpr std::array<std::string_view, 3> kDirections = {"ingress", "egress", "link"};
constexpr std::array kParameters = {
    FaultParameter{"percent", "2", 0.01, 100, {}, "of the TCP packets are dropped"},
    FaultParameter{"direction", "ingress", 0, 0, kDirections, "of the node; link: from `peer` to this rank only"},
    FaultParameter{"peer", "", 0, kMaximumRanks - 1, {}, "sending rank, for direction=link; default: the rank before"},
};

/// Where packets are caught: a network namespace and a chain in it.
struct Hook {
  std::string netns;
  std::string family;
  std::string chain;
};

Hook hook_of(std::string_view direction, const VirtualNode& node) {
  if (direction == "egress") {
    return {std::string(kBridgeNetns), "netdev",
            fmt::format("type filter hook ingress device {} priority 0", bridge_port(node.rank))};
  }
  return {node.netns, "inet", "type filter hook input priority 0"};
}

/// One transaction: table, counter, chain and rules appear together.
std::string ruleset(const std::string& table, const Hook& hook, double percent,
                    const std::vector<std::string>& matches) {
  std::string text =
      fmt::format("add table {1} {0}; add counter {1} {0} dropped; add chain {1} {0} faults {{ {2}; policy accept; }}",
                  table, hook.family, hook.chain);
  for (const std::string& match : matches) {
    text +=
        fmt::format("; add rule {} {} faults {}meta l4proto tcp numgen random mod 10000 < {} counter name dropped drop",
                    hook.family, table, match, std::lround(percent * 100));
  }
  return text;
}

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const VirtualNode& node = context.node();
  const std::string_view direction = spec.choice("direction");
  AppliedFault applied;
  std::vector<std::string> matches = {""};
  if (direction == "link") {
    const int ranks = static_cast<int>(context.nodes.size());
    const int peer = spec.has("peer") ? static_cast<int>(spec.number("peer")) : (context.rank + ranks - 1) % ranks;
    if (peer == context.rank) {
      return fail(fmt::format("fault '{}': a rank has no link to itself", spec.text), "name another peer",
                  ErrorKind::kUsage);
    }
    const VirtualNode& source = context.nodes[static_cast<size_t>(peer)];
    matches = {fmt::format("ip saddr {} ", source.address), fmt::format("ip6 saddr {} ", source.address6)};
    applied.link = FaultLink{peer, context.rank};
  }
  const std::string table = fmt::format("stalltrace_{}", context.number);
  const Hook hook = hook_of(direction, node);
  const std::vector<std::string> inside = {"ip", "netns", "exec", hook.netns, "nft"};
  auto add = inside;
  add.push_back(ruleset(table, hook, spec.number("percent"), matches));
  ST_TRY(run_command(add));
  applied.commands.push_back(format_command(add));
  auto remove = inside;
  remove.insert(remove.end(), {"delete", "table", hook.family, table});
  applied.undo.push_back({UndoKind::kCommand, remove});
  applied.drops = PacketCounter{hook.netns, hook.family, table};
  return applied;
}

}  // namespace

FaultRow packet_loss_row() {
  return {"packet_loss",
          "TCP packets are lost at a node or on one link",
          "packet_loss:rank=2,percent=2,direction=ingress",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
