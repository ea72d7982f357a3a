// SPDX-License-Identifier: Apache-2.0
#include "import/packet_capture/flows.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace stalltrace::import {
namespace {

/// A hole that is filled sooner, and that the receiver did not ask for, is reordering: packets overtake each other by
/// less, and a retransmission takes a round trip and the third duplicate acknowledgement.
constexpr int64_t kReorderedNs = 3 * kNsPerMs;
constexpr int64_t kAcksThatAsk = 3;  // RFC 5681

/// The 64-bit number near `near` with these lower 32 bits.
int64_t unwrap(uint32_t number, int64_t near) {
  return near + static_cast<int32_t>(number - static_cast<uint32_t>(static_cast<uint64_t>(near)));
}

}  // namespace

size_t Flows::KeyHash::operator()(const Key& key) const {
  const std::string_view low(reinterpret_cast<const char*>(key.low.data()), key.low.size());
  const std::string_view high(reinterpret_cast<const char*>(key.high.data()), key.high.size());
  const std::hash<std::string_view> hash;
  return hash(low) * 31 + hash(high) * 17 + key.low_port * size_t{65'537} + key.high_port;
}

void Flows::add(const TcpSegment& segment, int64_t timestamp_ns, int64_t packet) {
  const bool first_is_low =
      std::pair(segment.source, segment.source_port) < std::pair(segment.destination, segment.destination_port);
  Key key{segment.source, segment.destination, segment.source_port, segment.destination_port};
  if (!first_is_low) {
    std::swap(key.low, key.high);
    std::swap(key.low_port, key.high_port);
  }
  auto found = connections_.find(key);
  if (found == connections_.end()) {
    if (connections_.size() == kMostConnections) {
      ++not_kept_;
      return;
    }
    found = connections_.try_emplace(key).first;
  }
  Connection& connection = found->second;
  const size_t side = first_is_low ? 0 : 1;
  Direction& direction = connection.directions[side];
  Direction& other = connection.directions[1 - side];
  if (is_copy(direction, segment)) {
    ++copies_;
    return;
  }
  const Now now{timestamp_ns, packet};
  if (segment.syn && !segment.has_ack && direction.row.packets > 0 && direction.syn_seq != segment.seq) {
    finish(direction, other, timestamp_ns);  // the ports are used again
    finish(other, direction, timestamp_ns);
    connection = Connection();
  }
  PacketFlow& row = direction.row;
  if (row.packets == 0) {
    begin(direction, segment, now);
  }
  ++row.packets;
  row.duration_ns = std::max<int64_t>(row.duration_ns, timestamp_ns - row.started_ns);
  row.payload_bytes += segment.payload_bytes;
  if (segment.syn) {
    if (direction.syn_seq == segment.seq) {
      ++row.syn_retransmits;
      report(PacketEventKind::kSynAgain, direction, segment, now);
    }
    direction.syn_seq = segment.seq;
    row.opened = true;
    row.mss = segment.mss ? std::optional<int32_t>(*segment.mss) : row.mss;
  }
  if (segment.reset) {
    ++row.resets;
    row.closed = true;
    report(PacketEventKind::kReset, direction, segment, now);
    return;
  }
  take_data(direction, other, segment, now);
  if (segment.has_ack) {
    take_ack(direction, other, segment);
  }
  if (!segment.syn) {
    take_window(direction, segment, now);
  }
  row.closed = row.closed || segment.fin;
}

/// A segment that is sent again has another identification. IPv6 has none: there copies look like retransmissions.
bool Flows::is_copy(Direction& direction, const TcpSegment& segment) {
  const Print print{segment.seq, segment.ack, segment.payload_bytes, segment.identification};
  if (segment.identification == 0) {
    return false;
  }
  if (std::ranges::find(direction.prints, print) != direction.prints.end()) {
    return true;
  }
  direction.prints[direction.next_print++ % kPrints] = print;
  return false;
}

void Flows::begin(Direction& direction, const TcpSegment& segment, Now now) {
  PacketFlow& row = direction.row;
  row.flow = ++number_;
  row.started_ns = now.ns;
  row.source = {format_address(segment.source), segment.source_port};
  row.destination = {format_address(segment.destination), segment.destination_port};
}

void Flows::report(PacketEventKind kind, const Direction& direction, const TcpSegment& segment, Now now) {
  event_({.timestamp_ns = now.ns,
          .kind = kind,
          .flow = direction.row.flow,
          .source = direction.row.source,
          .destination = direction.row.destination,
          .seq = segment.seq,
          .len = segment.payload_bytes,
          .packet = now.packet});
}

void Flows::take_data(Direction& direction, const Direction& other, const TcpSegment& segment, Now now) {
  const int64_t length = int64_t{segment.payload_bytes} + (segment.syn ? 1 : 0) + (segment.fin ? 1 : 0);
  if (!direction.begun) {
    direction.begun = true;
    direction.next = segment.seq;
  }
  const int64_t begin = unwrap(segment.seq, direction.next);
  const int64_t end = begin + length;
  const bool probe = segment.payload_bytes <= 1 && !segment.syn && !segment.fin && begin < direction.next;
  if (length == 0 || probe) {  // a keep-alive, or a probe of a closed window
    return;
  }
  if (begin < direction.next) {
    if (segment.payload_bytes > 0) {
      take_again(direction, other, begin, std::min(end, direction.next), segment, now);
    }
    if (end <= direction.next) {
      return;
    }
  } else if (begin > direction.next && direction.holes.size() < kMostHoles) {
    direction.holes.push_back({direction.next, begin, now.ns});
  }
  const int64_t from = std::max(begin, direction.next);
  direction.next = end;
  if (segments_ < kMostSegments && segment.payload_bytes > 0) {
    direction.sent.push_back({.begin = from, .end = end, .sent_ns = now.ns});
    ++segments_;
  }
}

/// [begin, end) was sent before, or is a hole.
void Flows::take_again(Direction& direction, const Direction& other, int64_t begin, int64_t end,
                       const TcpSegment& segment, Now now) {
  PacketFlow& row = direction.row;
  const auto hole =
      std::ranges::find_if(direction.holes, [&](const Hole& one) { return begin < one.end && one.begin < end; });
  PacketEventKind kind = PacketEventKind::kRetransmit;
  if (hole != direction.holes.end()) {
    const bool asked = other.same_acks >= kAcksThatAsk;
    kind = !asked && now.ns - hole->seen_ns < kReorderedNs ? PacketEventKind::kReordered : PacketEventKind::kLostBefore;
    const Hole rest{std::min(end, hole->end), hole->end, hole->seen_ns};
    hole->end = std::max(hole->begin, begin);
    const bool empty = hole->begin >= hole->end;
    if (empty && rest.begin >= rest.end) {
      direction.holes.erase(hole);
    } else if (empty) {
      *hole = rest;
    } else if (rest.begin < rest.end && direction.holes.size() < kMostHoles) {
      direction.holes.push_back(rest);
    }
  } else if (direction.acked && end <= *direction.acked) {
    kind = PacketEventKind::kSpurious;
  }
  report(kind, direction, segment, now);
  if (kind == PacketEventKind::kReordered) {
    ++row.reordered;
    return;
  }
  ++row.retransmits;
  row.retransmitted_bytes += end - begin;
  row.spurious += kind == PacketEventKind::kSpurious ? 1 : 0;
  row.lost_before += kind == PacketEventKind::kLostBefore ? 1 : 0;
  if (!direction.sent.empty() && begin <= direction.sent.front().begin && direction.sent.front().begin < end) {
    Sent& oldest = direction.sent.front();
    ++oldest.repeats;
    oldest.repeated_bytes = oldest.repeated_bytes == 0 ? end - begin : oldest.repeated_bytes;
  }
}

void Flows::take_ack(Direction& direction, Direction& acknowledged, const TcpSegment& segment) {
  const bool bare = segment.payload_bytes == 0 && !segment.syn && !segment.fin;
  const bool outstanding = acknowledged.begun && unwrap(segment.ack, acknowledged.next) < acknowledged.next;
  const bool same = bare && outstanding && direction.last_ack == segment.ack && direction.last_window == segment.window;
  direction.same_acks = same ? direction.same_acks + 1 : direction.last_ack == segment.ack ? direction.same_acks : 0;
  direction.row.duplicate_acks += same ? 1 : 0;
  direction.last_ack = segment.ack;
  if (!acknowledged.begun) {
    acknowledged.begun = true;
    acknowledged.next = segment.ack;
  }
  const int64_t ack = unwrap(segment.ack, acknowledged.next);
  if (acknowledged.acked && ack <= *acknowledged.acked) {
    return;
  }
  PacketFlow& row = acknowledged.row;
  acknowledged.acked = ack;
  if (ack > acknowledged.next) {
    row.missing_bytes += ack - acknowledged.next;
    acknowledged.next = ack;
  }
  std::erase_if(acknowledged.holes, [&](Hole& hole) {
    if (hole.begin < ack) {
      row.missing_bytes += std::min(hole.end, ack) - hole.begin;
      hole.begin = std::min(hole.end, ack);
    }
    return hole.begin >= hole.end;
  });
  while (!acknowledged.sent.empty() && acknowledged.sent.front().begin < ack) {
    Sent& oldest = acknowledged.sent.front();
    row.largest_delivered_bytes = std::max(row.largest_delivered_bytes, std::min(oldest.end, ack) - oldest.begin);
    if (oldest.end > ack) {
      oldest.begin = ack;
      oldest.repeats = 0;
      oldest.repeated_bytes = 0;
      break;
    }
    acknowledged.sent.pop_front();
    --segments_;
  }
}

void Flows::take_window(Direction& direction, const TcpSegment& segment, Now now) {
  direction.last_window = segment.window;
  if (segment.window == 0 && !direction.closed_window_ns) {
    ++direction.row.zero_windows;
    direction.closed_window_ns = now.ns;
    report(PacketEventKind::kZeroWindow, direction, segment, now);
  } else if (segment.window != 0 && direction.closed_window_ns) {
    direction.row.zero_window_ns += std::max<int64_t>(now.ns - *direction.closed_window_ns, 0);
    direction.closed_window_ns.reset();
  }
}

void Flows::finish(Direction& direction, const Direction& other, int64_t end_ns) {
  PacketFlow& row = direction.row;
  segments_ -= direction.sent.size();
  if (row.packets == 0) {
    return;
  }
  if (direction.closed_window_ns) {
    row.zero_window_ns += std::max<int64_t>(end_ns - *direction.closed_window_ns, 0);
  }
  const bool ended = row.resets > 0 || other.row.resets > 0;
  if (other.row.packets > 0 && !ended && !direction.sent.empty()) {
    const Sent& oldest = direction.sent.front();
    row.unacked_bytes = direction.next - oldest.begin;
    row.unacked_ns = std::max<int64_t>(end_ns - oldest.sent_ns, 0);
    row.repeats = oldest.repeats;
    row.repeated_bytes = oldest.repeated_bytes;
  }
  done_(std::move(row));
}

void Flows::finish(int64_t end_ns) {
  for (auto& [key, connection] : connections_) {
    finish(connection.directions[0], connection.directions[1], end_ns);
    finish(connection.directions[1], connection.directions[0], end_ns);
  }
  connections_.clear();
}

}  // namespace stalltrace::import
