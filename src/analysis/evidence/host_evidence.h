// SPDX-License-Identifier: Apache-2.0
// Evidence from the hosts: dropped packets of the job's connections, counters of hosts and of their InfiniBand and RoCE
// ports, throttling of the ranks' cgroups. Read around the stalls, on the common clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/evidence/flows.h"
#include "analysis/evidence/reads/row_budget.h"
#include "analysis/intervals.h"
#include "analysis/timeline/cluster.h"
#include "model/events/port_counters.h"

namespace stalltrace::analysis {

/// Packets dropped by a host for one reason.
struct DropSum {
  std::string reason;
  bool incoming = false;  // on the way to the connection's owner
  int64_t packets = 0;
  uint64_t bytes = 0;  // including headers
};

/// A host counter that rose.
struct HostRise {
  std::string detail;
  double inside = 0;   // in the requested times
  double outside = 0;  // in the rest of the loaded time
};

/// A port counter that rose.
struct PortRise {
  std::string device;
  int32_t port = 0;
  std::string name;
  double value = 0;
  int64_t rose_ns = 0;                      // time in which it rose, within the window
  std::optional<double> calm_per_second{};  // its rate far from all stalls; none: too little such time is known
};

class HostEvidence {
 public:
  /// `windows` must not be empty. Of each table at most `most_rows` rows are kept.
  static Result<HostEvidence> load(EventSource& source, const Cluster& cluster, const Flows& flows,
                                   const IntervalSet& windows, int64_t most_rows);
  [[nodiscard]] const std::vector<DroppedRows>& dropped() const { return dropped_; }

  /// Packets of the connection with end `flow` that the owner's host dropped in `times`; most packets first.
  [[nodiscard]] std::vector<DropSum> drops(FlowIndex flow, const IntervalSet& times) const;
  /// True if the node's agent counted dropped packets: a count of zero then means that none were dropped.
  [[nodiscard]] bool counts_drops(NodeId node) const { return drop_counters_.contains(node); }

  /// The details of a host counter that rose in `times`, with the increase.
  [[nodiscard]] std::vector<HostRise> rises(NodeId node, std::string_view name, const IntervalSet& times) const;
  /// Length of the loaded time outside of `times`.
  [[nodiscard]] int64_t outside_ns(const IntervalSet& times) const { return read_.length() - times.covered_ns(read_); }
  /// The longest time for which the process's cgroup, or an ancestor, was not allowed to run.
  struct Throttling {
    int64_t throttled_ns = 0;
    std::string cgroup;
  };
  [[nodiscard]] Throttling throttling(NodeId node, int32_t pid, Interval window) const;
  /// Port counters of the node that rose in the window.
  [[nodiscard]] std::vector<PortRise> port_rises(NodeId node, Interval window) const;
  /// The nodes with a port counter of that kind that rose in the window: of many nodes few, as a rule.
  [[nodiscard]] std::set<NodeId> nodes_with_rising_ports(PortCounterKind kind, Interval window) const;
  /// True if counters of the node's ports were recorded in the loaded time.
  [[nodiscard]] bool counts_ports(NodeId node) const;
  [[nodiscard]] bool counts_ports() const { return !ports_.empty(); }

 private:
  friend class HostEvidenceLoader;
  struct Drop {
    Interval time{0, 0};
    DropSum sum;
  };
  /// A counter over time. It rises only between its points.
  struct Series {
    std::vector<std::pair<int64_t, double>> points;
    [[nodiscard]] double rise(Interval window, int64_t* rose_ns = nullptr) const;
    std::optional<double> calm_per_second{};  // PortRise::calm_per_second
  };

  Interval read_{0, 0};
  std::vector<DroppedRows> dropped_;
  std::map<FlowIndex, std::vector<Drop>> drops_;
  std::set<NodeId> drop_counters_;
  std::map<std::tuple<NodeId, std::string, std::string>, Series> numbers_;         // node, name, detail
  std::map<std::tuple<NodeId, std::string, int32_t, std::string>, Series> ports_;  // node, device, port, name
  /// Those of `ports_` that rise at all: most counters of errors never do.
  std::map<PortCounterKind, std::vector<std::pair<NodeId, const Series*>>> rising_ports_;
};

}  // namespace stalltrace::analysis
