// SPDX-License-Identifier: Apache-2.0
// Connections: data sent and received, TCP's events and states, dropped packets.
#include <fmt/format.h>

#include <array>

#include "base/text.h"
#include "export/rows/exporter.h"

namespace stalltrace::trace_export {
namespace {

std::string_view congestion_state(int32_t state) {
  constexpr std::array<std::string_view, 5> kNames{"open", "disorder", "CWR", "recovery", "loss"};
  return state >= 0 && static_cast<size_t>(state) < kNames.size() ? kNames[static_cast<size_t>(state)] : "";
}

}  // namespace

/// The folder of a connection, below the process that owns it.
TrackId Exporter::connection(NodeId node, uint64_t cookie, int32_t pid, const Endpoint& from, const Endpoint& to) {
  const Connection* row = participants_.connection(node, cookie);
  const TrackId parent = participants_.process(node, row != nullptr && row->pid != 0 ? row->pid : pid);
  if (parent == kNoTrack) {
    return kNoTrack;
  }
  return writer_.folder(parent, RowKind::kConnection, cookie, [&] {
    if (row == nullptr) {
      return from.address.empty() ? fmt::format("connection {}", cookie)
                                  : fmt::format("{} -> {}", format_endpoint(from), format_endpoint(to));
    }
    std::string whose;
    if (row->peer_rank) {
      whose = fmt::format(", rank {}", *row->peer_rank);
    }
    if (row->channel) {
      whose += fmt::format(", channel {}", *row->channel);
    }
    return fmt::format("{} -> {}{}", format_endpoint(row->source), format_endpoint(row->destination), whose);
  });
}

void Exporter::put(const NetSpan& row) {
  const TrackId parent = connection(row.node_id, row.cookie, row.pid, {}, {});
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return std::string(row.is_send ? "sends" : "receives"); };
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  writer_.slice({parent, row.is_send ? RowKind::kSends : RowKind::kReceives, 0, name},
                {.category = row.is_send ? "net_send" : "net_receive",
                 .name = row.is_send ? "send" : "receive",
                 .begin_ns = begin,
                 .end_ns = end_after(begin, row.duration_ns),
                 .annotations = notes_.clear().add("bytes", row.bytes).add("calls", row.calls)});
}

void Exporter::put(const TcpEvent& row) {
  const TrackId parent = connection(row.node_id, row.cookie, row.pid, row.source, row.destination);
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear();
  if (row.event == TcpEventKind::kCongestionState) {
    notes_.add("state", congestion_state(row.state));
  } else if (row.state != 0) {
    notes_.add("errno", row.state);
  }
  if (row.len != 0) {
    notes_.add("bytes", row.len);
  }
  const auto name = [] { return std::string("events"); };
  writer_.instant({parent, RowKind::kTcpEvents, 0, name}, {.category = "tcp_event",
                                                           .name = to_text(row.event),
                                                           .time_ns = at(row.node_id, row.timestamp_ns),
                                                           .annotations = notes_});
}

void Exporter::put(const TcpSample& row) {
  const TrackId parent = connection(row.node_id, row.cookie, row.pid, {}, {});
  if (parent == kNoTrack) {
    return;
  }
  const int64_t time = at(row.node_id, row.timestamp_ns);
  const auto put_one = [&](uint64_t which, const char* name, const char* unit, int64_t value) {
    writer_.counter({parent, RowKind::kCounter, which, [&] { return std::string(name); }}, unit, time, value);
  };
  put_one(0, "congestion window", "packets", row.cwnd);
  if (row.srtt_us != 0) {
    put_one(1, "round trip time", "us", row.srtt_us);
  }
  put_one(2, "unacknowledged", "bytes", row.unacked_bytes);
  put_one(3, "not yet sent", "bytes", row.notsent_bytes);
  put_one(4, "not yet read", "bytes", row.unread_bytes);
}

void Exporter::put(const PacketDrop& row) {
  const TrackId parent = connection(row.node_id, row.cookie, row.pid, {}, {});
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear()
      .add("packets", row.packets)
      .add("bytes", row.bytes)
      .add("direction", std::string_view(row.incoming ? "incoming" : "outgoing"));
  const auto name = [] { return std::string("packets dropped by the host"); };
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  writer_.slice({parent, RowKind::kPacketDrops, 0, name}, {.category = "packet_drop",
                                                           .name = row.reason,
                                                           .begin_ns = begin,
                                                           .end_ns = end_after(begin, row.duration_ns),
                                                           .annotations = notes_});
}

}  // namespace stalltrace::trace_export
