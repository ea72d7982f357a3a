// SPDX-License-Identifier: Apache-2.0
// TCP connections, and the kernel's reports about them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "model/events/event_traits.h"
#include "model/events/ids.h"

namespace stalltrace {

/// IPv4 addresses in dotted form, IPv6 addresses as in RFC 5952.
struct Endpoint {
  std::string address;
  uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
  auto operator<=>(const Endpoint&) const = default;
};

/// "10.77.0.2:40112", "[fe80::1]:22"
std::string format_endpoint(const Endpoint& endpoint);
/// The inverse; none without a colon. A port that is not a number is 0.
std::optional<Endpoint> parse_endpoint(std::string_view text);

/// One end of a TCP connection.
struct Connection {
  NodeId node_id = 0;
  uint64_t cookie = 0;
  int32_t pid = 0;  // the owner
  uint64_t netns = 0;
  int32_t family = 0;  // AF_INET 2, AF_INET6 10
  Endpoint source;
  Endpoint destination;
  int64_t opened_ns = 0;  // first observation if it was opened before tracing began
  std::optional<int64_t> closed_ns;
  std::optional<int32_t> rank;
  std::optional<int32_t> peer_rank;
  std::string thread_name;         // last thread that sent or received, as the kernel names it
  CommHash comm_id_hash = 0;       // the communicator whose data it carries
  std::optional<int32_t> channel;  // of that communicator
};

enum class TcpEventKind : uint8_t {
  kRetransmit,       // "tcp_retransmit_skb"
  kCongestionState,  // "tcp_cong_state_set": state 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss
  kResetSent,        // "tcp_send_reset"
  kResetReceived,    // "tcp_receive_reset"
  kConnect,          // "connect": established by us
  kAccept,           // "accept": established by the peer
  kClose,            // "close"
  kSocketError,      // "socket_error": state holds the errno
  kConnectFailed,    // "connect_failed": SYN_SENT to CLOSE; state holds the errno
};
std::string_view to_text(TcpEventKind kind);
std::optional<TcpEventKind> tcp_event_kind_from_text(std::string_view text);

/// An event on a connection, attributed to the owner of its socket.
struct TcpEvent {
  EventId event_id = 0;
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  TcpEventKind event = TcpEventKind::kRetransmit;
  int32_t pid = 0;
  std::optional<int32_t> rank;
  uint64_t cookie = 0;
  Endpoint source;
  Endpoint destination;
  uint32_t seq = 0;  // first sequence number of the segment; 0 if there is none
  uint32_t len = 0;  // payload bytes of the segment
  int32_t state = 0;
  uint64_t cgroup_id = 0;
};

/// The kernel's state of one connection at one time (struct tcp_sock). Counters are cumulative.
struct TcpSample {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  uint64_t cookie = 0;
  int32_t pid = 0;
  uint32_t srtt_us = 0;
  uint32_t cwnd = 0;         // packets
  uint32_t packets_out = 0;  // sent, not acknowledged
  uint32_t retrans_out = 0;
  uint32_t lost_out = 0;
  uint32_t total_retrans = 0;
  uint32_t dsack_dups = 0;  // retransmissions that the peer reported as duplicates
  uint32_t mss = 0;
  uint64_t bytes_acked = 0;
  uint64_t bytes_received = 0;
  uint32_t unacked_bytes = 0;  // snd_nxt - snd_una
  uint32_t notsent_bytes = 0;  // write_seq - snd_nxt
  uint32_t unread_bytes = 0;   // rcv_nxt - copied_seq: received, not yet read by the process
  uint32_t snd_wnd = 0;
  uint32_t rcv_wnd = 0;
  uint64_t busy_ns = 0;  // includes the other two
  uint64_t receiver_limited_ns = 0;
  uint64_t sndbuf_limited_ns = 0;
  uint8_t ca_state = 0;     // as in TcpEvent::state
  uint8_t retransmits = 0;  // icsk_retransmits: consecutive timeouts
  uint8_t backoff = 0;
  uint8_t tcp_state = 0;  // TCP_ESTABLISHED 1, ...
};

/// A burst of sends or receives on one connection: no gap inside it longer than the tracer's span gap.
struct NetSpan {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int64_t duration_ns = 0;
  uint64_t cookie = 0;
  int32_t pid = 0;
  int32_t tid = 0;  // last thread
  bool is_send = false;
  uint64_t bytes = 0;
  uint32_t calls = 0;
};

/// Packets of one connection that a host dropped for one reason, summed over a short time.
struct PacketDrop {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;  // of the first packet
  int64_t duration_ns = 0;   // from the first packet to the last
  uint64_t cookie = 0;
  int32_t pid = 0;        // the connection's owner
  bool incoming = false;  // in the direction of the owner; else from it
  uint64_t netns = 0;     // where they were dropped
  std::string reason;     // the kernel's (enum skb_drop_reason), without its prefix: "NETFILTER_DROP"
  uint32_t packets = 0;   // as the kernel counts them: one may hold several segments
  uint64_t bytes = 0;     // including headers
};

template <>
struct EventTraits<Connection> : StateTraits<Connection> {
  static constexpr std::string_view kTable = "connection";
  static auto key(const Connection& row) { return std::tuple(row.node_id, row.cookie); }
  static int64_t begin_ns(const Connection& row) { return row.opened_ns; }
  static int64_t end_ns(const Connection& row) { return end_or_forever(row.closed_ns); }
};

template <>
struct EventTraits<TcpEvent> : StreamTraits<TcpEvent, TableKind::kEvents> {
  static constexpr std::string_view kTable = "tcp_events";
};

template <>
struct EventTraits<TcpSample> : StreamTraits<TcpSample, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "tcp_sample";
};

template <>
struct EventTraits<NetSpan> : StreamTraits<NetSpan, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "net_span";
};

template <>
struct EventTraits<PacketDrop> : StreamTraits<PacketDrop, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "packet_drop";
};

inline constexpr TypeList<Connection> kConnectionTypes;
inline constexpr TypeList<TcpEvent, TcpSample, NetSpan, PacketDrop> kTcpTypes;

}  // namespace stalltrace
