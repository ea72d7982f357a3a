// SPDX-License-Identifier: Apache-2.0
#include "analysis/captures/judge_captures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/thresholds/captures.h"
#include "analysis/thresholds/network.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kFlowsKept = 16;  // of a capture
constexpr double kPercent = 100;

using Ranks = std::map<std::pair<Endpoint, Endpoint>, std::pair<std::optional<int32_t>, std::optional<int32_t>>>;

bool is_stuck(const PacketFlow& flow) { return flow.unacked_bytes > 0 && flow.repeats >= kStuckRepeats; }

/// The share of its bytes that were sent again and needed it. Packets do not show it: a host sends many segments as one
/// large packet, which its network card splits, and repeats them one by one.
double lost_share(const PacketFlow& flow) {
  const double needed = flow.retransmits > 0 ? static_cast<double>(flow.retransmits - flow.spurious) /
                                                   static_cast<double>(flow.retransmits)
                                             : 0;
  return flow.payload_bytes > 0 ? std::min(1.0, needed * static_cast<double>(flow.retransmitted_bytes) /
                                                    static_cast<double>(flow.payload_bytes))
                                : 0;
}

bool loses(const PacketFlow& flow) {
  return flow.retransmits - flow.spurious >= kLeastRetransmits && lost_share(flow) >= kRetransmitShare;
}

bool keeps_closed(const PacketFlow& flow) {
  return flow.zero_windows > 0 &&
         (flow.zero_window_ns >= kClosedWindowNs ||
          static_cast<double>(flow.zero_window_ns) >=
              kClosedWindowShare * static_cast<double>(std::max<int64_t>(flow.duration_ns, 1)));
}

/// Whether there is a remark on it.
bool is_remarkable(const PacketFlow& flow) {
  return is_stuck(flow) || loses(flow) || flow.syn_retransmits > 0 || keeps_closed(flow) || flow.resets > 0;
}

/// Smaller segments of the same way arrived while the flow's larger one did not.
struct SmallerArrived {
  int64_t bytes = 0;  // 0: none
  bool same_flow = false;
};

class Capture {
 public:
  Capture(PacketCapture row, std::vector<PacketFlow> flows) : flows_(std::move(flows)) {
    summary_.capture = std::move(row);
  }

  CaptureSummary judge(const Ranks& ranks) {
    add_limits();
    add_common_host();
    std::vector<const PacketFlow*> remarkable;
    for (const PacketFlow& flow : flows_) {
      if (is_remarkable(flow)) {
        remarkable.push_back(&flow);
      }
    }
    std::ranges::stable_sort(remarkable, std::ranges::greater(), [](const PacketFlow* flow) {
      return std::tuple(is_stuck(*flow), flow->retransmits - flow->spurious, flow->zero_window_ns);
    });
    if (remarkable.size() > kFlowsKept) {
      summary_.more_flows = static_cast<int64_t>(remarkable.size() - kFlowsKept);
      remarkable.resize(kFlowsKept);
    }
    // Only now: a remark may look at all other flows, of which one outage can cut off tens of thousands.
    for (const PacketFlow* flow : remarkable) {
      FlowSummary one{.flow = *flow, .remarks = remarks_on(*flow)};
      if (const auto known = ranks.find({flow->source, flow->destination}); known != ranks.end()) {
        std::tie(one.src_rank, one.dst_rank) = known->second;
      }
      summary_.flows.push_back(std::move(one));
    }
    return std::move(summary_);
  }

 private:
  void add_limits() {
    const PacketCapture& row = summary_.capture;
    if (row.too_big > 0) {
      summary_.remarks.push_back(fmt::format(
          "{} that a packet is too big for the path{}, the first from {}: all hosts of the job need one MTU, and ICMP "
          "must reach the senders",
          count_of(row.too_big, "ICMP message"), row.least_mtu ? fmt::format(" (MTU {})", *row.least_mtu) : "",
          row.too_big_from));
    }
    if (row.unreachable > 0) {
      summary_.remarks.push_back(
          fmt::format("{} that a destination can't be reached", count_of(row.unreachable, "ICMP message")));
    }
    int64_t missing = 0;
    for (const PacketFlow& flow : flows_) {
      missing += flow.missing_bytes;
    }
    if (missing > 0 || row.missed > 0) {
      summary_.remarks.push_back(fmt::format(
          "the capture has holes: {} of acknowledged data are not in it{}. Small loss can't be "
          "distinguished from them",
          format_size(missing), row.missed > 0 ? fmt::format(", {} packets were not kept", row.missed) : ""));
    }
  }

  /// The host that nearly all retransmissions go to, or come from.
  void add_common_host() {
    int64_t all = 0;
    using Peers = std::map<std::string, int64_t>;  // retransmissions of each
    std::map<std::string, Peers> to;
    std::map<std::string, Peers> from;
    for (const PacketFlow& flow : flows_) {
      const int64_t needed = flow.retransmits - flow.spurious;
      if (needed <= 0) {
        continue;
      }
      all += needed;
      to[flow.destination.address][flow.source.address] += needed;
      from[flow.source.address][flow.destination.address] += needed;
    }
    if (all < kLeastRetransmits) {
      return;
    }
    const auto add_note = [&](const auto& hosts, std::string_view way) {
      for (const auto& [host, peers] : hosts) {
        int64_t count = 0;
        int64_t most = 0;
        for (const auto& [peer, of_peer] : peers) {
          count += of_peer;
          most = std::max(most, of_peer);
        }
        // Else it is one peer's, or the way to it: all flows of a capture on a host have that host in common.
        const auto like_most = std::ranges::count_if(peers, [&](const auto& peer) {
          return static_cast<double>(peer.second) >= kLinkShare * static_cast<double>(most);
        });
        if (like_most > 1 && static_cast<double>(count) >= kOneHostShare * static_cast<double>(all)) {
          summary_.remarks.push_back(
              fmt::format("{} of {} retransmissions are of packets {} {}, of {} peers: look there first", count, all,
                          way, host, like_most));
        }
      }
    };
    add_note(to, "to");
    add_note(from, "from");
  }

  [[nodiscard]] SmallerArrived smaller_arrived(const PacketFlow& stuck) const {
    if (stuck.largest_delivered_bytes > 0 && stuck.largest_delivered_bytes < stuck.repeated_bytes) {
      return {stuck.largest_delivered_bytes, true};
    }
    const int64_t since_ns = stuck_since_ns(stuck);
    for (const PacketFlow& other : flows_) {
      const bool same_way = other.flow != stuck.flow && other.source.address == stuck.source.address &&
                            other.destination.address == stuck.destination.address;
      if (same_way && other.started_ns >= since_ns && other.largest_delivered_bytes > 0 &&
          other.largest_delivered_bytes < stuck.repeated_bytes) {
        return {other.largest_delivered_bytes, false};
      }
    }
    return {};
  }

  /// When the oldest unacknowledged segment was first sent.
  [[nodiscard]] int64_t stuck_since_ns(const PacketFlow& stuck) const {
    const PacketCapture& row = summary_.capture;
    return row.started_ns + row.duration_ns - stuck.unacked_ns;
  }

  /// Whether a packet of the other end came half of that time later or more: its answers to earlier segments came
  /// before.
  [[nodiscard]] bool still_sends(const PacketFlow& stuck) const {
    const int64_t since_ns = stuck_since_ns(stuck) + stuck.unacked_ns / 2;
    return std::ranges::any_of(flows_, [&](const PacketFlow& other) {
      return other.source == stuck.destination && other.destination == stuck.source &&
             other.started_ns + other.duration_ns >= since_ns;
    });
  }

  [[nodiscard]] std::vector<std::string> remarks_on(const PacketFlow& flow) const {
    std::vector<std::string> remarks;
    if (is_stuck(flow)) {
      const SmallerArrived smaller = smaller_arrived(flow);
      const std::string what = fmt::format(
          "stuck: a segment of {} bytes was sent again {} times and never acknowledged, in the last {} of the "
          "capture; {} wait behind it",
          flow.repeated_bytes, flow.repeats, format_duration(flow.unacked_ns), format_size(flow.unacked_bytes));
      const std::string& peer = flow.destination.address;
      std::string why = still_sends(flow)
                            ? fmt::format("{} still sends: packets to it are lost, or only large ones (MTU)", peer)
                            : fmt::format("the path, or {}, is gone", peer);
      if (smaller.bytes > 0) {
        why = smaller.same_flow
                  ? fmt::format(
                        "no segment of more than {} bytes ever arrived: the path may lose large packets (MTU, "
                        "blocked ICMP), or it is gone",
                        smaller.bytes)
                  : fmt::format(
                        "segments of up to {} bytes arrived on another connection of these hosts in that time: the "
                        "path loses large packets (MTU, blocked ICMP)",
                        smaller.bytes);
      }
      remarks.push_back(fmt::format("{}: {}", what, why));
    }
    if (loses(flow)) {
      const int64_t needed = flow.retransmits - flow.spurious;
      std::string where;
      if (flow.lost_before == flow.retransmits) {
        where = "; all were lost before the point of capture";
      } else if (flow.lost_before == 0) {
        where = "; all passed the point of capture and were lost behind it";
      } else {
        where = fmt::format("; {} were lost before the point of capture", flow.lost_before);
      }
      remarks.push_back(fmt::format("loss: {} of {} packets were retransmissions, {:.1f} % of the bytes{}", needed,
                                    flow.packets, kPercent * lost_share(flow), where));
    }
    if (flow.syn_retransmits > 0) {
      remarks.push_back(fmt::format("set-up: its SYN was sent again {} times", flow.syn_retransmits));
    }
    if (keeps_closed(flow)) {
      remarks.push_back(
          fmt::format("window: {} closed its receive window {} times, for {} in all: its process does not read",
                      flow.source.address, flow.zero_windows, format_duration(flow.zero_window_ns)));
    }
    if (flow.resets > 0) {
      remarks.push_back(fmt::format("reset: {} sent {} RST", flow.source.address, flow.resets));
    }
    return remarks;
  }

  std::vector<PacketFlow> flows_;
  CaptureSummary summary_;
};

}  // namespace

Status add_captures(EventSource& source, Report& report) {
  ST_ASSIGN(std::vector<PacketCapture> captures, source.packet_captures());
  if (captures.empty()) {
    return {};
  }
  ST_ASSIGN(std::vector<PacketFlow> rows, source.packet_flows());
  std::map<NodeId, std::vector<PacketFlow>> flows;
  for (PacketFlow& row : rows) {
    flows[row.node_id].push_back(std::move(row));
  }
  ST_ASSIGN(const std::vector<Connection> connections, source.connections());
  Ranks ranks;
  for (const Connection& connection : connections) {
    if (connection.rank || connection.peer_rank) {
      ranks[{connection.source, connection.destination}] = {connection.rank, connection.peer_rank};
      ranks.try_emplace({connection.destination, connection.source}, connection.peer_rank, connection.rank);
    }
  }
  std::ranges::stable_sort(captures, {}, &PacketCapture::file);
  for (PacketCapture& row : captures) {
    std::vector<PacketFlow>& of_it = flows[row.node_id];
    report.captures.push_back(Capture(std::move(row), std::move(of_it)).judge(ranks));
  }
  return {};
}

}  // namespace stalltrace::analysis
