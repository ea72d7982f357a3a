// SPDX-License-Identifier: Apache-2.0
#include "analysis/profiles/links.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "analysis/evidence/evidence.h"
#include "analysis/profiles/median_sample.h"

namespace stalltrace::analysis {
namespace {

/// One connection's sending direction.
struct FlowSums {
  int64_t retransmissions = 0;
  int64_t timeouts = 0;
  int64_t recovery_ns = 0;
  int64_t errors = 0;
  int64_t drops = 0;
  int64_t samples = 0;
  uint64_t first_acked = 0;
  uint64_t last_acked = 0;
  uint8_t last_timeouts = 0;
  int64_t most_unacked = 0;
  int64_t longest_rtt_us = 0;
  std::optional<int64_t> recovering_since_ns;
};

class LinkReader {
 public:
  LinkReader(JobView& job, const LinkFilter& filter) : job_(job), filter_(filter), flows_(job.flows().all().size()) {
    for (FlowIndex i = 0; i < flows_.size(); ++i) {
      const Flow& flow = job.flows().flow(i);
      const bool wanted = !filter.rank || flow.src_rank == filter.rank || flow.dst_rank == filter.rank;
      if (flow.src_rank && flow.dst_rank && wanted) {
        link_of_[i] = {*flow.src_rank, *flow.dst_rank};
      } else if (wanted) {
        ++left_out_;
      }
    }
  }

  Status read() {
    const TimeRange range = job_.on_any_clock(filter_.range);
    // From the recording's start: a connection can be in recovery when the range begins.
    const TimeRange until_end{std::numeric_limits<int64_t>::min(), range.to_ns};
    ST_TRY(job_.source().tcp_events(until_end, [&](const TcpEvent& row) {
      if (row.event == TcpEventKind::kCongestionState) {
        add_state(row);
      } else {
        add(row);
      }
    }));
    ST_TRY(job_.source().tcp_samples(range, [&](const TcpSample& row) { add(row); }));
    return job_.source().packet_drops(range, [&](const PacketDrop& row) { add(row); });
  }

  [[nodiscard]] std::vector<LinkProfile> profiles() {
    std::map<Pair, LinkProfile> links;
    for (const auto& [index, pair] : link_of_) {
      add_flow(index, pair, links[pair]);
    }
    std::vector<LinkProfile> out;
    for (auto& [pair, link] : links) {
      if (const MedianSample& rtts = rtts_us_[pair]; !rtts.empty()) {
        link.median_rtt_us = rtts.median();
      }
      out.push_back(link);
    }
    return out;
  }
  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  using Pair = std::pair<int32_t, int32_t>;

  /// The flow of a row in the filter's range; null for any other row.
  template <typename Row>
  FlowSums* flow_of(const Row& row, int64_t* time_ns, FlowIndex* index) {
    *time_ns = job_.cluster().clock().to_common(row.node_id, row.timestamp_ns);
    *index = job_.flows().find(row.node_id, row.cookie);
    if (*time_ns < filter_.range.from_ns || *time_ns >= filter_.range.to_ns || *index == kNoFlow ||
        !link_of_.contains(*index)) {
      return nullptr;
    }
    return &flows_[*index];
  }

  void add_state(const TcpEvent& row) {
    const int64_t time_ns = job_.cluster().clock().to_common(row.node_id, row.timestamp_ns);
    const FlowIndex index = job_.flows().find(row.node_id, row.cookie);
    if (time_ns >= filter_.range.to_ns || index == kNoFlow || !link_of_.contains(index)) {
      return;
    }
    FlowSums& flow = flows_[index];
    if (is_recovering(row.state)) {
      flow.recovering_since_ns = flow.recovering_since_ns.value_or(time_ns);
    } else if (flow.recovering_since_ns) {
      end_recovery(flow, time_ns);
    }
  }

  void end_recovery(FlowSums& flow, int64_t end_ns) {
    const int64_t since_ns = *std::exchange(flow.recovering_since_ns, std::nullopt);
    flow.recovery_ns += std::max<int64_t>(0, end_ns - std::max(since_ns, filter_.range.from_ns));
  }

  void add(const TcpEvent& row) {
    int64_t time_ns = 0;
    FlowIndex index = kNoFlow;
    FlowSums* flow = flow_of(row, &time_ns, &index);
    if (flow == nullptr) {
      return;
    }
    switch (row.event) {
      case TcpEventKind::kRetransmit:
        ++flow->retransmissions;
        break;
      case TcpEventKind::kResetSent:
      case TcpEventKind::kResetReceived:
      case TcpEventKind::kSocketError:
      case TcpEventKind::kConnectFailed:
        ++flow->errors;
        break;
      default:
        break;
    }
  }

  void add(const TcpSample& row) {
    int64_t time_ns = 0;
    FlowIndex index = kNoFlow;
    FlowSums* flow = flow_of(row, &time_ns, &index);
    if (flow == nullptr) {
      return;
    }
    if (flow->samples++ == 0) {
      flow->first_acked = row.bytes_acked;
      flow->last_timeouts = row.retransmits;
    }
    flow->last_acked = std::max(flow->last_acked, row.bytes_acked);
    flow->timeouts += std::max(0, row.retransmits - flow->last_timeouts);
    flow->last_timeouts = row.retransmits;
    flow->most_unacked = std::max<int64_t>(flow->most_unacked, row.unacked_bytes);
    if (row.srtt_us > 0) {
      flow->longest_rtt_us = std::max<int64_t>(flow->longest_rtt_us, row.srtt_us);
      rtts_us_[link_of_.at(index)].add(row.srtt_us);
    }
  }

  void add(const PacketDrop& row) {
    int64_t time_ns = 0;
    FlowIndex index = kNoFlow;
    if (flow_of(row, &time_ns, &index) == nullptr && index == kNoFlow) {
      return;
    }
    // What a host drops of the owner's incoming packets, the peer sent.
    const FlowIndex sender = row.incoming ? job_.flows().flow(index).reverse : index;
    if (sender != kNoFlow && link_of_.contains(sender) && filter_.range.contains(time_ns)) {
      flows_[sender].drops += row.packets;
    }
  }

  void add_flow(FlowIndex index, const Pair& pair, LinkProfile& link) {
    FlowSums& flow = flows_[index];
    if (flow.recovering_since_ns) {
      end_recovery(flow, std::min(filter_.range.to_ns, job_.range().to_ns));
    }
    link.src_rank = pair.first;
    link.dst_rank = pair.second;
    if (link.example == kNoFlow || flow.retransmissions > flows_[link.example].retransmissions) {
      link.example = index;
    }
    ++link.connections;
    link.retransmissions += flow.retransmissions;
    link.timeouts += flow.timeouts;
    link.recovery_ns += flow.recovery_ns;
    link.errors += flow.errors;
    link.drops += flow.drops;
    link.samples += flow.samples;
    if (flow.samples >= 2) {
      link.acked_bytes = link.acked_bytes.value_or(0) + (flow.last_acked - flow.first_acked);
    }
    if (flow.longest_rtt_us > 0) {
      link.longest_rtt_us = std::max(link.longest_rtt_us.value_or(0), flow.longest_rtt_us);
    }
    if (flow.samples > 0) {
      link.most_unacked_bytes = std::max(link.most_unacked_bytes.value_or(0), flow.most_unacked);
    }
  }

  JobView& job_;
  const LinkFilter& filter_;
  std::vector<FlowSums> flows_;
  std::map<FlowIndex, Pair> link_of_;
  std::map<Pair, MedianSample> rtts_us_;
  int64_t left_out_ = 0;
};

}  // namespace

Result<std::vector<LinkProfile>> link_profiles(JobView& job, const LinkFilter& filter, int64_t* left_out) {
  LinkReader reader(job, filter);
  ST_TRY(reader.read());
  *left_out = reader.left_out();
  return reader.profiles();
}

}  // namespace stalltrace::analysis
