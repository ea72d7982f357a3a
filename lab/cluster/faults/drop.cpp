// SPDX-License-Identifier: Apache-2.0
// Incoming packets are matched in the node's own namespace. Outgoing packets are matched where the node's link enters
// the bridge: the node's own TCP would notice a drop inside the node at once, unlike a real loss.
#include "lab/cluster/faults/drop.h"

#include <fmt/format.h>

#include <vector>

#include "base/process/command.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/network.h"

namespace stalltrace::lab {
namespace {

/// Where packets are matched: a network namespace and a chain in it.
struct Hook {
  std::string netns;
  std::string family;
  std::string chain;
  std::string match;  // of what passes the node's link
};

/// The last rank of the node before: in a ring it sends to this node.
int rank_before(const FaultContext& context) {
  const int ranks = static_cast<int>(context.nodes.size());
  return (context.rank - context.node().local_rank + ranks - 1) % ranks;
}

std::vector<Hook> hooks_of(std::string_view direction, const VirtualNode& node) {
  // Ranks of one node may use TCP on its loopback, which is not the link's.
  const std::string link_only = node.local_ranks > 1 ? fmt::format("iifname {} ", kInterface) : "";
  const Hook in = {node.netns, "inet", "type filter hook input priority 0", link_only};
  const Hook out = {std::string(kBridgeNetns), "netdev",
                    fmt::format("type filter hook ingress device {} priority 0", bridge_port(node.number)), ""};
  if (direction == "both") {
    return {in, out};
  }
  return {direction == "egress" ? out : in};
}

/// One transaction: table, counter, chain and rules appear together.
std::string ruleset(const std::string& table, const Hook& hook, const std::vector<std::string>& matches,
                    const std::string& verdict) {
  std::string text =
      fmt::format("add table {1} {0}; add counter {1} {0} dropped; add chain {1} {0} faults {{ {2}; policy accept; }}",
                  table, hook.family, hook.chain);
  for (const std::string& match : matches) {
    text += fmt::format("; add rule {} {} faults {}{}counter name dropped {}", hook.family, table, hook.match, match,
                        verdict);
  }
  return text;
}

Status add(const Hook& hook, const std::string& table, const std::vector<std::string>& matches,
           const std::string& verdict, AppliedFault& applied) {
  const std::vector<std::string> inside = {"ip", "netns", "exec", hook.netns, "nft"};
  auto command = inside;
  command.push_back(ruleset(table, hook, matches, verdict));
  ST_TRY(run_command(command));
  applied.commands.push_back(format_command(command));
  auto remove = inside;
  remove.insert(remove.end(), {"delete", "table", hook.family, table});
  applied.undo.push_back({UndoKind::kCommand, remove});
  if (!applied.drops) {
    applied.drops = PacketCounter{hook.netns, hook.family, table};
  }
  return {};
}

}  // namespace

Result<AppliedFault> apply_rule(const FaultSpec& spec, const FaultContext& context, const std::string& match,
                                const std::string& verdict) {
  const std::string_view direction = spec.choice("direction");
  const std::string tcp = match.empty() ? "meta l4proto tcp " : fmt::format("meta l4proto tcp {} ", match);
  AppliedFault applied;
  std::vector<std::string> matches = {tcp};
  if (direction == "link") {
    const int peer = spec.has("peer") ? static_cast<int>(spec.number("peer")) : rank_before(context);
    const VirtualNode& source = context.nodes[static_cast<size_t>(peer)];
    if (source.number == context.node().number) {
      return fail(fmt::format("fault '{}': a node has no link to itself", spec.text), "name another peer",
                  ErrorKind::kUsage);
    }
    matches = {fmt::format("ip saddr {} ", source.address) + tcp, fmt::format("ip6 saddr {} ", source.address6) + tcp};
    applied.link = FaultLink{peer, context.rank};
  }
  const std::string table = fmt::format("stalltrace_{}", context.number);
  for (const Hook& hook : hooks_of(direction, context.node())) {
    if (Status added = add(hook, table, matches, verdict, applied); !added) {
      (void)undo_all(applied.undo);
      return std::unexpected(added.error());
    }
  }
  return applied;
}

}  // namespace stalltrace::lab
