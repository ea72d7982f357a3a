// SPDX-License-Identifier: Apache-2.0
#include "model/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/hash.h"
#include "model/source.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 9> kTcpEventKinds{
    "tcp_retransmit_skb", "tcp_cong_state_set", "tcp_send_reset", "tcp_receive_reset", "connect", "accept", "close",
    "socket_error",       "connect_failed"};
constexpr std::array<std::string_view, 5> kWaitKinds{"runnable", "blocked", "disk", "stopped", "on_cpu"};
constexpr std::array<std::string_view, 4> kProxyWaits{"", "gpu", "peer", "network"};

template <typename Enum, size_t n>
std::optional<Enum> find_name(const std::array<std::string_view, n>& names, std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  return found == names.end() ? std::nullopt : std::optional(static_cast<Enum>(found - names.begin()));
}

template <typename T>
int64_t end_of(const T& event) {
  if constexpr (std::is_same_v<T, Collective>) {
    return event.end_ns().value_or(std::numeric_limits<int64_t>::max());
  } else if constexpr (std::is_same_v<T, NetSpan>) {
    return event.timestamp_ns + event.duration_ns;
  } else if constexpr (std::is_same_v<T, WaitSpan>) {
    return event.open ? std::numeric_limits<int64_t>::max() : event.timestamp_ns + event.window_ns;
  } else {
    return event.timestamp_ns;
  }
}

template <typename T>
Status visit_range(const std::vector<T>& events, TimeRange range, const EventSource::Visitor<T>& visit) {
  for (const T& event : events) {
    if (event.timestamp_ns < range.to_ns && end_of(event) >= range.from_ns) {
      visit(event);
    }
  }
  return {};
}

bool same_key(const Node& a, const Node& b) { return a.node_id == b.node_id; }
bool same_key(const Process& a, const Process& b) {
  return a.node_id == b.node_id && a.pid == b.pid && a.start_ns == b.start_ns;
}
bool same_key(const Communicator& a, const Communicator& b) {
  return a.node_id == b.node_id && a.pid == b.pid && a.comm_ptr == b.comm_ptr && a.created_ns == b.created_ns;
}
bool same_key(const Connection& a, const Connection& b) { return a.node_id == b.node_id && a.cookie == b.cookie; }
bool same_key(const Stack& a, const Stack& b) { return a.stack_id == b.stack_id; }
bool same_key(const Loss& a, const Loss& b) { return a.node_id == b.node_id && a.source == b.source; }

/// Newest first, since an upsert nearly always follows its insert closely.
template <typename T>
void upsert(std::vector<T>& rows, T row) {
  const auto found = std::find_if(rows.rbegin(), rows.rend(), [&](const T& other) { return same_key(row, other); });
  if (found == rows.rend()) {
    rows.push_back(std::move(row));
  } else {
    *found = std::move(row);
  }
}

}  // namespace

NodeId make_node_id(std::string_view name, std::string_view boot_id, int64_t started_ns) {
  const uint64_t hash =
      splitmix64_fold(splitmix64_text(boot_id, splitmix64_text(name)), static_cast<uint64_t>(started_ns));
  const auto id = static_cast<NodeId>(hash >> (64 - kNodeIdBits));
  return id == 0 ? 1 : id;
}

std::string format_hash(uint64_t hash) { return fmt::format("0x{:016x}", hash); }

std::string format_endpoint(const Endpoint& endpoint) {
  return endpoint.address.find(':') == std::string::npos ? fmt::format("{}:{}", endpoint.address, endpoint.port)
                                                         : fmt::format("[{}]:{}", endpoint.address, endpoint.port);
}

std::string_view to_text(TcpEventKind kind) { return kTcpEventKinds[static_cast<size_t>(kind)]; }
std::optional<TcpEventKind> tcp_event_kind_from_text(std::string_view text) {
  return find_name<TcpEventKind>(kTcpEventKinds, text);
}
std::string_view to_text(WaitKind kind) { return kWaitKinds[static_cast<size_t>(kind)]; }
std::optional<WaitKind> wait_kind_from_text(std::string_view text) { return find_name<WaitKind>(kWaitKinds, text); }
std::string_view to_text(ProxyWait wait) { return kProxyWaits[static_cast<size_t>(wait)]; }
std::optional<ProxyWait> proxy_wait_from_text(std::string_view text) { return find_name<ProxyWait>(kProxyWaits, text); }

void MemorySource::accept(Event event) {
  std::visit(
      [this](auto&& row) {
        using T = std::decay_t<decltype(row)>;
        if constexpr (std::is_same_v<T, Node>) {
          upsert(nodes_, std::move(row));
        } else if constexpr (std::is_same_v<T, Process>) {
          upsert(processes_, std::move(row));
        } else if constexpr (std::is_same_v<T, Communicator>) {
          upsert(communicators_, std::move(row));
        } else if constexpr (std::is_same_v<T, Connection>) {
          upsert(connections_, std::move(row));
        } else if constexpr (std::is_same_v<T, Collective>) {
          const auto [found, fresh] = collective_index_.try_emplace(row.event_id, collectives_.size());
          if (fresh) {
            collectives_.push_back(std::move(row));
          } else {
            collectives_[found->second] = std::move(row);
          }
        } else if constexpr (std::is_same_v<T, Stack>) {
          upsert(stacks_, std::move(row));
        } else if constexpr (std::is_same_v<T, Loss>) {
          upsert(losses_, std::move(row));
        } else if constexpr (std::is_same_v<T, TcpEvent>) {
          tcp_events_.push_back(std::move(row));
        } else if constexpr (std::is_same_v<T, TcpSample>) {
          tcp_samples_.push_back(std::move(row));
        } else if constexpr (std::is_same_v<T, NetSpan>) {
          net_spans_.push_back(std::move(row));
        } else if constexpr (std::is_same_v<T, WaitSpan>) {
          wait_spans_.push_back(std::move(row));
        } else if constexpr (std::is_same_v<T, ProxyStep>) {
          proxy_steps_.push_back(std::move(row));
        } else if constexpr (std::is_same_v<T, PacketDrop>) {
          packet_drops_.push_back(std::move(row));
        } else if constexpr (std::is_same_v<T, HostSample>) {
          host_samples_.push_back(std::move(row));
        } else {
          static_assert(std::is_same_v<T, PortCounter>);
          port_counters_.push_back(std::move(row));
        }
      },
      std::move(event));
}

Status MemorySource::collectives(TimeRange range, const Visitor<Collective>& visit) {
  return visit_range(collectives_, range, visit);
}
Status MemorySource::tcp_events(TimeRange range, const Visitor<TcpEvent>& visit) {
  return visit_range(tcp_events_, range, visit);
}
Status MemorySource::tcp_samples(TimeRange range, const Visitor<TcpSample>& visit) {
  return visit_range(tcp_samples_, range, visit);
}
Status MemorySource::net_spans(TimeRange range, const Visitor<NetSpan>& visit) {
  return visit_range(net_spans_, range, visit);
}
Status MemorySource::wait_spans(TimeRange range, const Visitor<WaitSpan>& visit) {
  return visit_range(wait_spans_, range, visit);
}
Status MemorySource::proxy_steps(TimeRange range, const Visitor<ProxyStep>& visit) {
  return visit_range(proxy_steps_, range, visit);
}
Status MemorySource::packet_drops(TimeRange range, const Visitor<PacketDrop>& visit) {
  return visit_range(packet_drops_, range, visit);
}
Status MemorySource::host_samples(TimeRange range, const Visitor<HostSample>& visit) {
  return visit_range(host_samples_, range, visit);
}
Status MemorySource::port_counters(TimeRange range, const Visitor<PortCounter>& visit) {
  return visit_range(port_counters_, range, visit);
}

}  // namespace stalltrace
