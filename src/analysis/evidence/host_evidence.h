// SPDX-License-Identifier: Apache-2.0
// What the hosts themselves say: packets of the job's connections that they dropped, counters of hosts and of their
// InfiniBand and RoCE ports, throttling of the ranks' cgroups. Read around the stalls, on the common clock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/evidence/flows.h"
#include "analysis/intervals.h"
#include "analysis/timeline/cluster.h"

namespace stalltrace::analysis {

/// Packets that a host dropped for one reason.
struct DropSum {
  std::string reason;
  bool incoming = false;  // on the way to the connection's owner
  int64_t packets = 0;
  uint64_t bytes = 0;  // with headers
};

/// A number of a host that rose.
struct HostRise {
  std::string detail;
  double inside = 0;   // in the times asked for
  double outside = 0;  // in the rest of what was read
};

/// A port's counter that rose.
struct PortRise {
  std::string device;
  int32_t port = 0;
  std::string name;
  double value = 0;
  int64_t rose_ns = 0;  // for so much of the window it rose
};

class HostEvidence {
 public:
  /// `windows` is not empty.
  static Result<HostEvidence> load(EventSource& source, const Cluster& cluster, const Flows& flows,
                                   const IntervalSet& windows);

  /// What the owner's host dropped in `times` of the connection that `flow` is one end of; most packets first.
  [[nodiscard]] std::vector<DropSum> drops(FlowIndex flow, const IntervalSet& times) const;
  /// Whether the node's agent counted dropped packets: then none is none.
  [[nodiscard]] bool counts_drops(NodeId node) const { return drop_counters_.contains(node); }

  /// Details of a number of the host that rose in `times`, and by how much.
  [[nodiscard]] std::vector<HostRise> rises(NodeId node, std::string_view name, const IntervalSet& times) const;
  /// So much was read besides `times`.
  [[nodiscard]] int64_t outside_ns(const IntervalSet& times) const { return read_.length() - times.covered_ns(read_); }
  /// Time for which the process's cgroup, or one above it, was not allowed to run, the longest of them.
  struct Throttling {
    int64_t throttled_ns = 0;
    std::string cgroup;
  };
  [[nodiscard]] Throttling throttling(NodeId node, int32_t pid, Interval window) const;
  /// Counters of the node's ports that rose in the window.
  [[nodiscard]] std::vector<PortRise> port_rises(NodeId node, Interval window) const;

 private:
  friend class HostEvidenceLoader;
  struct Drop {
    Interval time{0, 0};
    DropSum sum;
  };
  /// A number over time. It rose between two points and nowhere else.
  struct Series {
    std::vector<std::pair<int64_t, double>> points;
    [[nodiscard]] double rise(Interval window, int64_t* rose_ns = nullptr) const;
  };

  Interval read_{0, 0};
  std::map<FlowIndex, std::vector<Drop>> drops_;
  std::set<NodeId> drop_counters_;
  std::map<std::tuple<NodeId, std::string, std::string>, Series> numbers_;         // node, name, detail
  std::map<std::tuple<NodeId, std::string, int32_t, std::string>, Series> ports_;  // node, device, port, name
};

}  // namespace stalltrace::analysis
