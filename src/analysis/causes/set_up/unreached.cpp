// SPDX-License-Identifier: Apache-2.0
#include "analysis/causes/set_up/unreached.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "analysis/causes/cause.h"
#include "analysis/causes/evidence_counters.h"
#include "base/text.h"

namespace stalltrace::analysis {

Result<Reach> reach_in(EventSource& source, const Cluster& cluster, Interval time) {
  Reach reach;
  ST_ASSIGN(const std::vector<Connection> connections, source.connections());
  for (const Connection& connection : connections) {
    if (!connection.closed_ns) {  // a refused connection is closed at once
      reach.reached[{connection.node_id, connection.pid}].insert(connection.destination);
    }
    reach.own_addresses.insert(connection.source.address);
  }
  const int64_t slack_ns = cluster.clock().largest_shift_ns();
  const TimeRange range{time.from_ns - slack_ns, time.to_ns + slack_ns};
  std::set<std::pair<NodeId, uint64_t>> connected;
  ST_TRY(source.tcp_events(range, [&](const TcpEvent& event) {
    if (event.event == TcpEventKind::kConnect || event.event == TcpEventKind::kAccept) {
      connected.insert({event.node_id, event.cookie});
    }
    if (event.event == TcpEventKind::kConnect) {
      reach.reached[{event.node_id, event.pid}].insert(event.destination);
    }
  }));
  ST_TRY(source.tcp_events(range, [&](const TcpEvent& event) {
    const bool refused = event.event == TcpEventKind::kConnectFailed && event.state != 0;
    const bool unanswered = event.event == TcpEventKind::kRetransmit && event.len == 0 &&
                            !connected.contains({event.node_id, event.cookie});
    if (!refused && !unanswered) {
      return;
    }
    Attempts& attempts = reach.unreached[{{event.node_id, event.pid}, event.destination}];
    const int64_t time_ns = cluster.clock().to_common(event.node_id, event.timestamp_ns);
    attempts.refused += refused ? 1 : 0;
    attempts.unanswered += unanswered ? 1 : 0;
    attempts.error = refused ? event.state : attempts.error;
    attempts.first_ns = std::min(attempts.first_ns, time_ns);
    attempts.last_ns = std::max(attempts.last_ns, time_ns);
    attempts.target = event.destination;
    if (attempts.events.size() < kSampleEvents) {
      attempts.events.push_back(event.event_id);
    }
  }));
  return reach;
}

std::string_view error_text(const Attempts& attempts) {
  switch (attempts.error) {
    case ECONNREFUSED:
      return "refused";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "unreachable";
    default:
      return "not answered";
  }
}

Evidence attempts_evidence(const std::string& who, const Attempts& attempts) {
  return {attempts.refused > 0 ? "connect_failed" : "tcp_retransmit_skb", attempts.count(),
          fmt::format("{} from {} to {}: {}", count_of(attempts.count(), "attempt"), who,
                      format_endpoint(attempts.target), error_text(attempts)),
          attempts.events};
}

}  // namespace stalltrace::analysis
