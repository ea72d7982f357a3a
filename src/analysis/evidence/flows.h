// SPDX-License-Identifier: Apache-2.0
// Directed flows: the sending direction of each connection end, with the rank it sends to. The two ends of one TCP
// connection are two rows with swapped endpoints, usually from two nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/timeline/cluster.h"
#include "base/hash.h"

namespace stalltrace::analysis {

class Timeline;

using FlowIndex = uint32_t;
inline constexpr FlowIndex kNoFlow = 0xffff'ffff;

struct Flow {
  NodeId node_id = 0;
  uint64_t cookie = 0;
  MemberIndex owner = kNoMember;
  MemberIndex peer = kNoMember;
  FlowIndex reverse = kNoFlow;  // the row of the other end
  bool known_address = false;   // a connection of a rank begins at the address of the other end
  std::optional<int32_t> src_rank;
  std::optional<int32_t> dst_rank;
  Endpoint src;
  Endpoint dst;
  int64_t opened_ns = 0;  // on the common clock, as the next
  int64_t closed_ns = 0;  // kForever: not seen to close
  std::string thread_name;
  bool carries_collectives = false;
  bool dedicated = false;  // its thread serves only collectives, judging by its name
  /// Whose data it carries, by the profiler plugin's attribution of one of its ends or both; 0: unknown.
  CommHash communicator = 0;
};

/// False if the flow is known to carry the data of another communicator, on which its owner calls: then it is no
/// evidence of what this one's calls waited for. Of two names, one may be unknown here: 0, or a name that no calls of
/// its owner have.
bool may_carry(const Timeline& timeline, const Flow& flow, CommHash communicator);

class Flows {
 public:
  /// The connections of all members of the cluster; those of other processes are left out. O(n log n). Errors: those
  /// of the source.
  static Result<Flows> load(EventSource& source, const Cluster& cluster);

  [[nodiscard]] const std::vector<Flow>& all() const { return flows_; }
  [[nodiscard]] const Flow& flow(FlowIndex index) const { return flows_[index]; }
  /// The flow of a socket of a node, in constant time; kNoFlow if no member of the cluster has it.
  [[nodiscard]] FlowIndex find(NodeId node, uint64_t cookie) const;
  /// The flows that a rank sends on, ascending.
  [[nodiscard]] std::span<const FlowIndex> of(MemberIndex owner) const;
  /// The flows that any of `owners` sends on, ascending. With many owners it costs no more than reading all flows.
  [[nodiscard]] std::vector<FlowIndex> of(std::span<const MemberIndex> owners) const;

 private:
  void join_ends(const Cluster& cluster);
  void join_attributions();
  void mark_collective_traffic(const Cluster& cluster);

  struct KeyHash {
    size_t operator()(const std::pair<NodeId, uint64_t>& key) const {
      return splitmix64_fold(splitmix64_fold(kSplitmixSeed, key.first), key.second);
    }
  };
  std::vector<Flow> flows_;
  std::unordered_map<std::pair<NodeId, uint64_t>, FlowIndex, KeyHash> index_;
  std::vector<std::vector<FlowIndex>> by_owner_;
};

}  // namespace stalltrace::analysis
