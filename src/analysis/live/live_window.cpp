// SPDX-License-Identifier: Apache-2.0
#include "analysis/live/live_window.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace stalltrace::analysis {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
/// Rows that are too old are looked for this often, not at every step: it is a pass over all.
constexpr int64_t kSweepNs = 2 * kNsPerSecond;

/// Until when a row says something; what is open speaks from its begin on, since a hang is held by that.
template <typename T>
int64_t last_word_ns(const T& row) {
  if constexpr (std::is_same_v<T, Collective>) {
    return row.settled_ns().value_or(row.timestamp_ns);
  } else if constexpr (std::is_same_v<T, WaitSpan>) {
    return row.timestamp_ns + row.window_ns;
  } else if constexpr (std::is_same_v<T, ProxyStep>) {
    return row.timestamp_ns + row.duration_ns.value_or(0);
  } else {
    return row.timestamp_ns;
  }
}

template <typename T>
int64_t end_ns(const T& row) {
  if constexpr (std::is_same_v<T, Collective>) {
    return row.settled_ns().value_or(kForever);
  } else if constexpr (std::is_same_v<T, WaitSpan>) {
    return row.open ? kForever : last_word_ns(row);
  } else if constexpr (std::is_same_v<T, ProxyStep>) {
    return row.duration_ns ? last_word_ns(row) : kForever;
  } else {
    return row.timestamp_ns;
  }
}

template <typename T>
Status visit_range(const std::deque<T>& rows, TimeRange range, const EventSource::Visitor<T>& visit) {
  for (const T& row : rows) {
    if (row.timestamp_ns < range.to_ns && end_ns(row) >= range.from_ns) {
      visit(row);
    }
  }
  return {};
}

/// Drops the rows that `gone` says, then the oldest (by `age`) beyond the bound.
template <typename Map, typename Gone, typename Age>
void bound(Map& map, size_t limit, const Gone& gone, const Age& age) {
  std::erase_if(map, [&](const auto& entry) { return gone(entry.second); });
  if (map.size() <= limit) {
    return;
  }
  std::vector<int64_t> ages;
  for (const auto& [key, row] : map) {
    ages.push_back(age(row));
  }
  const auto cut = ages.begin() + static_cast<int64_t>(map.size() - limit);
  std::nth_element(ages.begin(), cut, ages.end());
  const int64_t oldest_ns = *cut;
  std::erase_if(map, [&](const auto& entry) { return map.size() > limit && age(entry.second) < oldest_ns; });
  while (map.size() > limit) {  // many of one age
    map.erase(map.begin());
  }
}

}  // namespace

void LiveWindow::accept(Event event) {
  std::visit(
      [this]<typename T>(T&& row) {
        using Row = std::remove_cvref_t<T>;
        if constexpr (std::is_same_v<Row, Node>) {
          nodes_.insert_or_assign(row.node_id, std::forward<T>(row));
        } else if constexpr (std::is_same_v<Row, Process>) {
          processes_.insert_or_assign({row.node_id, row.pid, row.start_ns}, std::forward<T>(row));
        } else if constexpr (std::is_same_v<Row, Communicator>) {
          communicators_.insert_or_assign({row.node_id, row.pid, row.comm_ptr, row.created_ns}, std::forward<T>(row));
        } else if constexpr (std::is_same_v<Row, Connection>) {
          connections_.insert_or_assign({row.node_id, row.cookie}, std::forward<T>(row));
        } else if constexpr (std::is_same_v<Row, Loss>) {
          losses_.insert_or_assign({row.node_id, row.source}, std::forward<T>(row));
        } else if constexpr (std::is_same_v<Row, Collective>) {
          upsert(std::forward<T>(row));
        } else if constexpr (std::is_same_v<Row, Stack>) {
          if (stacks_.size() < limits_.things) {
            stacks_.insert_or_assign(row.stack_id, std::forward<T>(row));
          }
        } else if constexpr (!std::is_same_v<Row, NetSpan>) {
          each_stream([&]<typename Rows>(Rows& rows) {
            if constexpr (std::is_same_v<typename Rows::value_type, Row>) {
              rows.push_back(std::move(row));
              if (rows.size() > limits_.rows) {
                rows.pop_front();
              }
            }
          });
        }
      },
      std::move(event));
}

void LiveWindow::upsert(Collective row) {
  const auto by_id = [](const Collective& a, const Collective& b) { return a.event_id < b.event_id; };
  const auto at = collectives_.empty() || collectives_.back().event_id < row.event_id
                      ? collectives_.end()
                      : std::lower_bound(collectives_.begin(), collectives_.end(), row, by_id);
  if (at != collectives_.end() && at->event_id == row.event_id) {
    *at = std::move(row);
    return;
  }
  collectives_.insert(at, std::move(row));
  if (collectives_.size() > limits_.rows) {
    collectives_.pop_front();
  }
}

void LiveWindow::advance(int64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  if (now_ns_ - swept_ns_ < kSweepNs) {
    return;
  }
  swept_ns_ = now_ns_;
  each_stream([&](auto& rows) {
    std::erase_if(rows, [&](const auto& row) { return last_word_ns(row) < from_ns() && !is_held(row.timestamp_ns); });
  });
  forget_things();
}

bool LiveWindow::is_held(int64_t time_ns) const {
  return std::any_of(held_.begin(), held_.end(), [&](const TimeRange& range) { return range.contains(time_ns); });
}

/// What has ended before the window, and what is too many.
void LiveWindow::forget_things() {
  int64_t horizon_ns = from_ns();
  for (const TimeRange& range : held_) {
    horizon_ns = std::min(horizon_ns, range.from_ns);
  }
  const auto before = [&](std::optional<int64_t> time_ns) { return time_ns && *time_ns < horizon_ns; };
  bound(
      processes_, limits_.things, [&](const Process& row) { return before(row.exit_ns); },
      [](const Process& row) { return row.start_ns; });
  bound(
      communicators_, limits_.things, [&](const Communicator& row) { return before(row.destroyed_ns); },
      [](const Communicator& row) { return row.created_ns; });
  bound(
      connections_, limits_.things, [&](const Connection& row) { return before(row.closed_ns); },
      [](const Connection& row) { return row.opened_ns; });
  bound(
      losses_, limits_.things, [](const Loss&) { return false; }, [](const Loss&) { return int64_t{0}; });
}

size_t LiveWindow::rows() const {
  return nodes_.size() + processes_.size() + communicators_.size() + connections_.size() + losses_.size() +
         collectives_.size() + tcp_events_.size() + tcp_samples_.size() + wait_spans_.size() + proxy_steps_.size() +
         packet_drops_.size() + host_samples_.size() + port_counters_.size();
}

Result<std::vector<Node>> LiveWindow::nodes() {
  std::vector<Node> all = values(nodes_);
  for (Node& node : all) {
    node.ended_ns = node.ended_ns ? std::min(*node.ended_ns, now_ns_) : now_ns_;
  }
  return all;
}

Status LiveWindow::collectives(TimeRange range, const Visitor<Collective>& visit) {
  return visit_range(collectives_, range, visit);
}
Status LiveWindow::tcp_events(TimeRange range, const Visitor<TcpEvent>& visit) {
  return visit_range(tcp_events_, range, visit);
}
Status LiveWindow::tcp_samples(TimeRange range, const Visitor<TcpSample>& visit) {
  return visit_range(tcp_samples_, range, visit);
}
Status LiveWindow::net_spans(TimeRange /*range*/, const Visitor<NetSpan>& /*visit*/) { return {}; }
Status LiveWindow::wait_spans(TimeRange range, const Visitor<WaitSpan>& visit) {
  return visit_range(wait_spans_, range, visit);
}
Status LiveWindow::proxy_steps(TimeRange range, const Visitor<ProxyStep>& visit) {
  return visit_range(proxy_steps_, range, visit);
}
Status LiveWindow::packet_drops(TimeRange range, const Visitor<PacketDrop>& visit) {
  return visit_range(packet_drops_, range, visit);
}
Status LiveWindow::host_samples(TimeRange range, const Visitor<HostSample>& visit) {
  return visit_range(host_samples_, range, visit);
}
Status LiveWindow::port_counters(TimeRange range, const Visitor<PortCounter>& visit) {
  return visit_range(port_counters_, range, visit);
}

}  // namespace stalltrace::analysis
