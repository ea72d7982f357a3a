// SPDX-License-Identifier: Apache-2.0
// Reordering: some of a node's outgoing packets take a slower path and arrive after their successors. TCP retransmits a
// few unnecessarily, and the job loses no time: it is not a fault, and no finding is expected.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/process/command.h"
#include "lab/cluster/faults/faults.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/network.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"percent", "2", 0.1, 50, {}, "of the packets take the slower way"},
    FaultParameter{"mbit", "300", 1, 100'000, {}, "per second on the slower way"},
};

/// One HTB class for all packets, and one for those that nftables selects.
std::vector<std::vector<std::string>> commands_for(const FaultSpec& spec, const FaultContext& context) {
  const std::string netns = context.node().netns;
  const std::string device(kInterface);
  const std::string table = fmt::format("stalltrace_{}", context.number);
  const std::vector<std::string> inside = {"ip", "netns", "exec", netns};
  const auto in = [&](std::vector<std::string> words) {
    words.insert(words.begin(), inside.begin(), inside.end());
    return words;
  };
  const std::string picks = fmt::format(
      "add table inet {0}; add chain inet {0} faults {{ type filter hook output priority 0; policy accept; "
      "}}; add rule inet {0} faults meta l4proto tcp numgen random mod 1000 < {1} meta priority set 1:20",
      table, std::lround(spec.number("percent") * 10));
  return {
      in({"tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "10"}),
      in({"tc", "class", "add", "dev", device, "parent", "1:", "classid", "1:10", "htb", "rate", "100gbit", "quantum",
          "60000"}),
      in({"tc", "class", "add", "dev", device, "parent", "1:", "classid", "1:20", "htb", "rate",
          std::string(spec.choice("mbit")) + "mbit", "burst", "2k", "quantum", "60000"}),
      in({"nft", picks}),
  };
}

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  const std::string netns = context.node().netns;
  AppliedFault applied;
  applied.undo.push_back(
      {UndoKind::kCommand,
       {"ip", "netns", "exec", netns, "tc", "qdisc", "del", "dev", std::string(kInterface), "root"}});
  const auto commands = commands_for(spec, context);
  for (const std::vector<std::string>& command : commands) {
    if (auto done = run_command(command); !done) {
      (void)undo_all(applied.undo);
      return std::unexpected(std::move(done.error()));
    }
    applied.commands.push_back(format_command(command));
  }
  applied.undo.push_back(
      {UndoKind::kCommand,
       {"ip", "netns", "exec", netns, "nft", "delete", "table", "inet", fmt::format("stalltrace_{}", context.number)}});
  return applied;
}

}  // namespace

FaultRow reordering_row() {
  return {.cause = "reordering",
          .summary = "packets overtake each other: no fault, only retransmits without cost",
          .example = "reordering:rank=1,percent=2",
          .parameters = kParameters,
          .pulse = "",
          .apply = apply,
          .harmless = true,
          .of_node = true};
}

}  // namespace stalltrace::lab
