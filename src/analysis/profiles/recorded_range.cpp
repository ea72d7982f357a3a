// SPDX-License-Identifier: Apache-2.0
#include "analysis/profiles/recorded_range.h"

#include <algorithm>

#include "model/streams/node_streams.h"

namespace stalltrace::analysis {

Status find_end(EventSource& source, const Cluster& cluster, Timeline& timeline) {
  const bool ended = std::all_of(cluster.nodes().begin(), cluster.nodes().end(),
                                 [](const Node& node) { return node.ended_ns.has_value(); });
  if (ended || timeline.rows() == 0) {
    return {};
  }
  const TimeRange after{timeline.span().to_ns - cluster.clock().largest_shift_ns(), kForever};
  const auto extend = [&](const auto& row) {
    timeline.extend(cluster.clock().to_common(row.node_id, row.timestamp_ns));
  };
  ST_TRY(stream_by_node<TcpSample>(source, after, nullptr, extend));
  ST_TRY(stream_by_node<TcpEvent>(source, after, nullptr, extend));
  return stream_by_node<WaitSpan>(source, after, nullptr, extend);
}

TimeRange recorded_range(const Cluster& cluster, const Timeline& timeline) {
  const Interval span = timeline.span();
  if (timeline.rows() > 0 || !timeline.communicator_calls().empty()) {
    return {span.from_ns, span.to_ns};
  }
  const auto first = std::ranges::min_element(cluster.nodes(), {}, &Node::started_ns);
  const int64_t start_ns = first == cluster.nodes().end() ? 0 : first->started_ns;
  return {start_ns, std::max(start_ns, span.to_ns)};
}

}  // namespace stalltrace::analysis
