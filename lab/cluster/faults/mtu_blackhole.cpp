// SPDX-License-Identifier: Apache-2.0
// An MTU black hole: IP packets above a length vanish silently, smaller ones pass. Batches from the hosts are split
// into packets first, as an interface does before the path can drop any.
#include <array>

#include "base/process/command.h"
#include "lab/cluster/faults/drop.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/network.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"bytes", "1400", 600, 1499, {}, "longest IP packet that passes"},
    kDirectionParameter,
    kPeerParameter,
};

constexpr std::string_view kNoBatches = "1";
constexpr std::string_view kBatches = "65535";  // the kernel's default

/// One end of the node's link, and its limit of segments per batch.
std::vector<std::string> batches(std::string_view netns, std::string_view interface, std::string_view segments) {
  return {"ip",
          "-n",
          std::string(netns),
          "link",
          "set",
          "dev",
          std::string(interface),
          "gso_max_segs",
          std::string(segments)};
}

Status cut_batches(std::string_view netns, std::string_view interface, AppliedFault& applied) {
  const std::vector<std::string> command = batches(netns, interface, kNoBatches);
  ST_TRY(run_command(command));
  applied.commands.push_back(format_command(command));
  applied.undo.push_back({UndoKind::kCommand, batches(netns, interface, kBatches)});
  return {};
}

/// Both ends of the node's link.
Status cut_batches(const VirtualNode& node, AppliedFault& applied) {
  ST_TRY(cut_batches(kBridgeNetns, bridge_port(node.number), applied));
  return cut_batches(node.netns, kInterface, applied);
}

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  ST_ASSIGN(AppliedFault applied, apply_rule(spec, context, "meta length > " + std::string(spec.choice("bytes"))));
  if (Status cut = cut_batches(context.node(), applied); !cut) {
    (void)undo_all(applied.undo);
    return std::unexpected(cut.error());
  }
  return applied;
}

}  // namespace

FaultRow mtu_blackhole_row() {
  return {.cause = "mtu_blackhole",
          .summary = "large packets vanish at a node or on one link",
          .example = "mtu_blackhole:rank=2,bytes=1400",
          .parameters = kParameters,
          .pulse = "",
          .apply = apply,
          .onset = Onset::kAny,
          .of_node = true};
}

}  // namespace stalltrace::lab
