// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/injection/manual.h"

#include <fmt/format.h>

#include "lab/cluster/artefacts/artefacts.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/interrupt.h"
#include "lab/cluster/host/lock.h"
#include "lab/cluster/host/network.h"
#include "lab/cluster/host/process.h"
#include "lab/cluster/injection/fault_table.h"
#include "lab/cluster/injection/leftovers.h"
#include "lab/cluster/state.h"

namespace stalltrace::lab {
namespace {

std::vector<VirtualNode> make_nodes(int ranks) {
  std::vector<VirtualNode> nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    nodes.push_back(make_node(rank, std::string(kStateFolder)));
  }
  return nodes;
}

Status undo_faults(ClusterState& state) {
  Status first;
  for (; !state.faults.empty(); state.faults.pop_back()) {
    if (Status status = undo_all(state.faults.back().undo); !status && first) {
      first = std::move(status);
    }
  }
  return first;
}

Status refuse_schedule(const FaultSpec& spec) {
  if (spec.start_ns || spec.duration_ns || spec.every_ns || spec.pulse_ns) {
    return fail(fmt::format("fault '{}': by hand a fault begins now", spec.text),
                "leave out start, duration, for and every, and end it with `stalltrace lab fault none`",
                ErrorKind::kUsage);
  }
  return {};
}

}  // namespace

Result<std::vector<NodeAddress>> up(const ClusterOptions& options) {
  if (options.ranks < 1 || options.ranks > kMaximumRanks) {
    return fail(fmt::format("{} ranks", options.ranks), fmt::format("ask for 1 to {}", kMaximumRanks),
                ErrorKind::kUsage);
  }
  ST_TRY(check_privilege_and_tools());
  InterruptGuard interrupt;
  ST_ASSIGN(const LabLock lock, LabLock::take());
  ST_TRY(clear_killed_run());
  const std::vector<VirtualNode> nodes = make_nodes(options.ranks);
  ST_ASSIGN(Network network, Network::make(nodes));
  std::vector<NodeFolder> folders;
  std::vector<NodeAddress> addresses;
  for (const VirtualNode& node : nodes) {
    ST_ASSIGN(NodeFolder folder, NodeFolder::make(node));
    folders.push_back(std::move(folder));
    addresses.push_back({node.name, node.netns, node.address, node.folder});
    ST_TRY(interrupt.check());
  }
  ST_TRY(save_state({options.ranks, 0, {}}));
  network.release();
  for (NodeFolder& folder : folders) {
    folder.release();
  }
  return addresses;
}

Result<std::vector<std::string>> apply_fault(const FaultSpec& spec) {
  ST_TRY(check_privilege_and_tools());
  ST_TRY(refuse_schedule(spec));
  const InterruptGuard interrupt;  // a fault is in effect and noted, or neither
  ST_ASSIGN(const LabLock lock, LabLock::take());
  ST_ASSIGN(ClusterState state, load_state());
  if (spec.cause == "none") {
    return std::vector<std::string>{};
  }
  std::vector<VirtualNode> nodes = make_nodes(state.ranks);
  for (VirtualNode& node : nodes) {
    node.pids = processes_in(node.netns_path);
  }
  const FaultRow* row = find_fault_row(spec.cause);
  FaultContext context;
  context.nodes = nodes;
  ST_ASSIGN(context.rank, choose_rank(spec, state.ranks, 0));
  context.number = state.next_number++;
  context.outlives_caller = true;
  ST_ASSIGN(AppliedFault applied, row->apply(spec, context));
  state.faults.push_back({spec.text, applied.undo});
  if (auto saved = save_state(state); !saved) {
    (void)undo_all(applied.undo);
    return std::unexpected(std::move(saved.error()));
  }
  return std::move(applied.commands);
}

Status clear_faults() {
  ST_TRY(check_privilege_and_tools());
  ST_ASSIGN(const LabLock lock, LabLock::take());
  ST_ASSIGN(ClusterState state, load_state());
  const Status undone = undo_faults(state);
  ST_TRY(save_state(state));
  return undone;
}

Result<std::vector<std::string>> down() {
  ST_TRY(check_privilege_and_tools());
  ST_ASSIGN(const LabLock lock, LabLock::take());
  if (auto state = load_state()) {
    (void)undo_faults(*state);  // faults that can't be undone go with their namespace
  }
  return remove_everything();
}

}  // namespace stalltrace::lab
