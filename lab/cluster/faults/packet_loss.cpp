// SPDX-License-Identifier: Apache-2.0
// Packet loss: nftables drops TCP packets at random in the node's own namespace, on the way in, on the way out,
// or on the way in from one peer only. A dropped packet may be a batch of segments that the virtual link had not
// split yet: the counter counts packets as the hook sees them.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "lab/cluster/command.h"
#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array<std::string_view, 3> kDirections = {"ingress", "egress", "link"};
constexpr std::array kParameters = {
    FaultParameter{"percent", "2", 0.01, 100, {}, "of the TCP packets are dropped"},
    FaultParameter{"direction", "ingress", 0, 0, kDirections, "of the node; link: from `peer` to this rank only"},
    FaultParameter{"peer", "", 0, kMaximumRanks - 1, {}, "sending rank, for direction=link; default: the rank before"},
};

/// One transaction: table, counter, chain and rules appear together.
std::string ruleset(const std::string& table, std::string_view hook, double percent,
                    const std::vector<std::string>& matches) {
  std::string text = fmt::format(
      "add table inet {0}; add counter inet {0} dropped; "
      "add chain inet {0} faults {{ type filter hook {1} priority 0; policy accept; }}",
      table, hook);
  for (const std::string& match : matches) {
    text += fmt::format(
        "; add rule inet {} faults {}meta l4proto tcp numgen random mod 10000 < {} counter name dropped drop", table,
        match, std::lround(percent * 100));
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
  const std::vector<std::string> inside = {"ip", "netns", "exec", node.netns, "nft"};
  auto add = inside;
  add.push_back(ruleset(table, direction == "egress" ? "output" : "input", spec.number("percent"), matches));
  ST_TRY(run_command(add));
  applied.commands.push_back(format_command(add));
  auto remove = inside;
  remove.insert(remove.end(), {"delete", "table", "inet", table});
  applied.undo.push_back({UndoKind::kCommand, remove});
  applied.drops = PacketCounter{node.netns, table};
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
