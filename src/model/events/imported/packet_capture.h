// SPDX-License-Identifier: Apache-2.0
// TCP connections as a packet capture (pcap, pcapng) shows them. Others' view of the network: nothing here is
// attributed to a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "model/events/event_traits.h"
#include "model/events/ids.h"
#include "model/events/tcp.h"

namespace stalltrace {

/// One file, which is a node.
struct PacketCapture {
  NodeId node_id = 0;
  int64_t started_ns = 0;            // first packet; the time of the file, where there is none
  int64_t duration_ns = 0;           // to the last packet
  int64_t packets = 0;               // records in the file
  int64_t tcp_packets = 0;           // of them
  int64_t flows = 0;                 // directions of TCP connections
  int64_t missed = 0;                // packets that the capturing program says it lost
  int64_t too_big = 0;               // ICMP messages "fragmentation needed" and "packet too big"
  std::optional<int32_t> least_mtu;  // the smallest that these report
  std::string too_big_from;          // who sent the first of them, and about which path
  int64_t unreachable = 0;           // other ICMP messages "destination unreachable"
  bool cut = false;                  // the file ends in the middle of a packet, or is damaged there
  std::string file;
};

/// One direction of a TCP connection: what `source` sent, and what was acknowledged of it.
struct PacketFlow {
  NodeId node_id = 0;
  int32_t flow = 0;         // in its capture, from 1
  int64_t started_ns = 0;   // its first packet
  int64_t duration_ns = 0;  // to its last packet
  Endpoint source;
  Endpoint destination;
  int64_t packets = 0;
  int64_t payload_bytes = 0;
  int64_t retransmits = 0;  // segments that were sent again
  int64_t retransmitted_bytes = 0;
  int64_t lost_before = 0;              // of them: the capture never saw the first one: lost before this point
  int64_t spurious = 0;                 // of them: had been acknowledged already
  int64_t syn_retransmits = 0;          // SYNs that were sent again
  int64_t reordered = 0;                // segments that came after later ones
  int64_t duplicate_acks = 0;           // that this direction sent
  int64_t zero_windows = 0;             // times that the source closed its window
  int64_t zero_window_ns = 0;           // how long it was closed, in all
  int64_t resets = 0;                   // RST packets
  int64_t missing_bytes = 0;            // acknowledged, but not in the capture: the capturing program lost them
  bool opened = false;                  // its SYN is in the capture
  bool closed = false;                  // FIN or RST
  std::optional<int32_t> mss;           // that the SYN offered
  int64_t largest_delivered_bytes = 0;  // payload of the largest segment that was acknowledged
  int64_t unacked_bytes = 0;            // at the end of the capture
  int64_t unacked_ns = 0;               // how long the oldest of them was not acknowledged, at the end
  int64_t repeats = 0;                  // times that the oldest of them was sent again
  int64_t repeated_bytes = 0;           // payload of its first retransmission: one segment
};

enum class PacketEventKind : uint8_t {
  kRetransmit,  // "retransmit"
  kSpurious,    // "spurious_retransmit": its data had been acknowledged already
  kLostBefore,  // "retransmit_unseen": the capture never saw the first one
  kReordered,   // "reordered"
  kSynAgain,    // "syn_retransmit"
  kZeroWindow,  // "zero_window"
  kReset,       // "reset"
};
std::string_view to_text(PacketEventKind kind);
std::optional<PacketEventKind> packet_event_kind_from_text(std::string_view text);

/// A packet that shows trouble.
struct PacketEvent {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  PacketEventKind kind = PacketEventKind::kRetransmit;
  int32_t flow = 0;
  Endpoint source;
  Endpoint destination;
  int64_t seq = 0;     // TCP sequence number
  int64_t len = 0;     // payload bytes
  int64_t packet = 0;  // number in its file, from 1
};

template <>
struct EventTraits<PacketCapture> : StateTraits<PacketCapture> {
  static constexpr std::string_view kTable = "packet_capture";
  static auto key(const PacketCapture& row) { return row.node_id; }
  static int64_t begin_ns(const PacketCapture& row) { return row.started_ns; }
  static int64_t end_ns(const PacketCapture& /*row*/) { return kForever; }
};

template <>
struct EventTraits<PacketFlow> : StateTraits<PacketFlow> {
  static constexpr std::string_view kTable = "packet_flow";
  static auto key(const PacketFlow& row) { return std::tuple(row.node_id, row.flow); }
  static int64_t begin_ns(const PacketFlow& row) { return row.started_ns; }
  static int64_t end_ns(const PacketFlow& /*row*/) { return kForever; }
};

template <>
struct EventTraits<PacketEvent> : StreamTraits<PacketEvent, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "packet_event";
};

inline constexpr TypeList<PacketCapture, PacketFlow> kPacketFlowTypes;
inline constexpr TypeList<PacketEvent> kPacketEventTypes;

}  // namespace stalltrace
