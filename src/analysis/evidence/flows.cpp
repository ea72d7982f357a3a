// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/flows.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/thresholds/timeline.h"
#include "analysis/timeline/timeline.h"
#include "base/net/loopback.h"

namespace stalltrace::analysis {
namespace {

bool overlap(const Flow& a, const Flow& b) {
  return a.opened_ns - kConnectionEndsApartNs < b.closed_ns && b.opened_ns - kConnectionEndsApartNs < a.closed_ns;
}

/// Ports are used again: of several connections with the same ends, the one that was open at the same time is meant.
int64_t open_together_ns(const Flow& a, const Flow& b) {
  return std::min(a.closed_ns, b.closed_ns) - std::max(a.opened_ns, b.opened_ns);
}

bool collective_thread(const std::string& name) {
  return name.starts_with("NCCL Progress") || name.starts_with("NCCL Sock") || name.starts_with("gloo") ||
         name.starts_with("pt_gloo");
}

}  // namespace

bool may_carry(const Timeline& timeline, const Flow& flow, CommHash communicator) {
  return communicator == 0 || flow.communicator == 0 || flow.communicator == communicator ||
         timeline.is_graph_of(communicator, flow.communicator) || !timeline.calls_on(flow.owner, flow.communicator);
}

Result<Flows> Flows::load(EventSource& source, const Cluster& cluster) {
  Flows flows;
  ST_ASSIGN(const std::vector<Connection> rows, source.connections());
  for (const Connection& row : rows) {
    const MemberIndex owner = cluster.find(row.node_id, row.pid);
    if (owner == kNoMember) {
      continue;
    }
    Flow flow{.node_id = row.node_id, .cookie = row.cookie, .owner = owner};
    flow.src_rank = cluster.member(owner).rank ? cluster.member(owner).rank : row.rank;
    flow.dst_rank = row.peer_rank;
    flow.src = row.source;
    flow.dst = row.destination;
    flow.opened_ns = cluster.clock().to_common(row.node_id, row.opened_ns);
    flow.closed_ns = row.closed_ns ? cluster.clock().to_common(row.node_id, *row.closed_ns) : kForever;
    flow.thread_name = row.thread_name;
    flow.communicator = row.comm_id_hash;
    const auto index = static_cast<FlowIndex>(flows.flows_.size());
    flows.index_[{row.node_id, row.cookie}] = index;
    flows.by_owner_.resize(std::max<size_t>(flows.by_owner_.size(), owner + size_t{1}));
    flows.by_owner_[owner].push_back(index);
    flows.flows_.push_back(std::move(flow));
  }
  flows.join_ends(cluster);
  flows.join_attributions();
  flows.mark_collective_traffic(cluster);
  return flows;
}

void Flows::join_ends(const Cluster& cluster) {
  std::multimap<std::pair<Endpoint, Endpoint>, FlowIndex> by_ends;
  std::map<std::string, std::set<MemberIndex>> by_address;
  for (FlowIndex i = 0; i < flows_.size(); ++i) {
    by_ends.insert({{flows_[i].src, flows_[i].dst}, i});
    by_address[flows_[i].src.address].insert(flows_[i].owner);
  }
  for (FlowIndex i = 0; i < flows_.size(); ++i) {
    Flow& flow = flows_[i];
    const bool on_one_node = is_loopback(flow.dst.address);  // every node has such addresses
    const auto [begin, end] = by_ends.equal_range({flow.dst, flow.src});
    for (auto entry = begin; entry != end; ++entry) {
      const Flow& other = flows_[entry->second];
      if (entry->second == i || !overlap(flow, other) || (on_one_node && other.node_id != flow.node_id)) {
        continue;
      }
      if (flow.reverse == kNoFlow || open_together_ns(flow, other) > open_together_ns(flow, flows_[flow.reverse])) {
        flow.reverse = entry->second;
        flow.peer = other.owner;
      }
    }
    // The other end may not be recorded as a connection, but its address may belong to only one rank.
    const auto found = by_address.find(flow.dst.address);
    flow.known_address = found != by_address.end();
    if (flow.peer == kNoMember && flow.known_address && found->second.size() == 1 &&
        *found->second.begin() != flow.owner) {
      flow.peer = *found->second.begin();
    }
    if (flow.peer != kNoMember && cluster.member(flow.peer).rank) {
      flow.dst_rank = cluster.member(flow.peer).rank;
    }
  }
}

/// What is known of one end holds for the other. Ends that contradict each other show nothing.
void Flows::join_attributions() {
  std::vector<CommHash> own;
  for (const Flow& flow : flows_) {
    own.push_back(flow.communicator);
  }
  for (Flow& flow : flows_) {
    const CommHash other = flow.reverse == kNoFlow ? 0 : own[flow.reverse];
    if (flow.communicator == 0) {
      flow.communicator = other;
    } else if (other != 0 && other != flow.communicator) {
      flow.communicator = 0;
    }
  }
}

/// If a process has connections of the library's network threads, its other connections (store, log, data) don't count.
/// An end that only another thread used counts if its other end does. Connections to processes on the same host that
/// are no ranks (a launcher's daemon, a display) carry no collective data, nor do connections of a process to itself
/// (NCCL's calls to its own proxy thread).
void Flows::mark_collective_traffic(const Cluster& cluster) {
  std::vector<bool> has_named(cluster.members().size(), false);
  for (Flow& flow : flows_) {
    flow.dedicated = collective_thread(flow.thread_name);
    has_named[flow.owner] = has_named[flow.owner] || flow.dedicated;
  }
  for (Flow& flow : flows_) {
    const bool peer_named = flow.reverse != kNoFlow && collective_thread(flows_[flow.reverse].thread_name);
    const bool local_stranger = flow.peer == kNoMember && !flow.dedicated && is_loopback(flow.dst.address);
    const bool with_itself = flow.peer == flow.owner;
    flow.carries_collectives = !local_stranger && !with_itself &&
                               (collective_thread(flow.thread_name) || peer_named || !has_named[flow.owner]);
  }
}

std::span<const FlowIndex> Flows::of(MemberIndex owner) const {
  return owner < by_owner_.size() ? std::span<const FlowIndex>(by_owner_[owner]) : std::span<const FlowIndex>();
}

std::vector<FlowIndex> Flows::of(std::span<const MemberIndex> owners) const {
  std::vector<FlowIndex> flows;
  for (const MemberIndex owner : owners) {
    const std::span<const FlowIndex> own = of(owner);
    flows.insert(flows.end(), own.begin(), own.end());
  }
  std::ranges::sort(flows);
  flows.erase(std::unique(flows.begin(), flows.end()), flows.end());
  return flows;
}

FlowIndex Flows::find(NodeId node, uint64_t cookie) const {
  const auto found = index_.find({node, cookie});
  return found == index_.end() ? kNoFlow : found->second;
}

}  // namespace stalltrace::analysis
