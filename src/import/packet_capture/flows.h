// SPDX-License-Identifier: Apache-2.0
// The TCP connections of a capture, followed by sequence numbers. A segment is a retransmission if all its bytes were
// in the capture before, or if it fills a hole late, or after the receiver asked for it: then the first one was lost
// before it came to the capture. A capture of one direction shows no acknowledgements: nothing is then called
// unacknowledged.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "import/packet_capture/tcp_segment.h"
#include "model/events/imported/packet_capture.h"

namespace stalltrace::import {

class Flows {
 public:
  static constexpr size_t kMostConnections = 32'768;  // two flows each
  static constexpr size_t kMostSegments = 1'000'000;  // not acknowledged, of all connections together
  static constexpr size_t kMostHoles = 64;            // of a flow

  /// `event` gets the packets that show trouble, `done` each flow that is complete.
  Flows(std::function<void(const PacketEvent&)> event, std::function<void(PacketFlow)> done)
      : event_(std::move(event)), done_(std::move(done)) {}

  void add(const TcpSegment& segment, int64_t timestamp_ns, int64_t packet);
  /// All flows go to `done`. `end_ns`: the capture's last packet.
  void finish(int64_t end_ns);
  /// Packets of connections that were too many.
  [[nodiscard]] uint64_t not_kept() const { return not_kept_; }
  /// Packets that the capture has more than once, as one of all interfaces has those that pass two of them: a bridge
  /// and a port of it. Each is followed once.
  [[nodiscard]] uint64_t copies() const { return copies_; }
  [[nodiscard]] int64_t flows() const { return number_; }

 private:
  struct Key {
    IpAddress low{};
    IpAddress high{};
    uint16_t low_port = 0;
    uint16_t high_port = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  /// Sequence numbers are counted on beyond 32 bits, from the first one seen.
  struct Sent {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t sent_ns = 0;
    int64_t repeats = 0;  // since it is the oldest
    int64_t repeated_bytes = 0;
  };
  struct Hole {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t seen_ns = 0;
  };
  /// By what a copy of a packet is recognised.
  struct Print {
    uint32_t seq = 0;
    uint32_t ack = 0;
    uint32_t payload_bytes = 0;
    uint16_t identification = 0;
    bool operator==(const Print&) const = default;
  };
  static constexpr size_t kPrints = 8;  // copies follow each other closely
  struct Direction {
    PacketFlow row;
    std::array<Print, kPrints> prints{};  // of the last packets, by turns
    size_t next_print = 0;
    bool begun = false;  // `next` is known
    int64_t next = 0;    // behind the last byte that was sent
    std::optional<int64_t> acked;
    std::deque<Sent> sent;  // in order, not acknowledged
    std::vector<Hole> holes;
    std::optional<uint32_t> syn_seq;
    uint16_t last_window = 0;
    std::optional<uint32_t> last_ack;
    int64_t same_acks = 0;  // duplicate acknowledgements in a row that this direction sent
    std::optional<int64_t> closed_window_ns;
  };
  struct Connection {
    Direction directions[2];
  };

  struct Now {
    int64_t ns = 0;
    int64_t packet = 0;
  };
  bool is_copy(Direction& direction, const TcpSegment& segment);
  void begin(Direction& direction, const TcpSegment& segment, Now now);
  void take_data(Direction& direction, const Direction& other, const TcpSegment& segment, Now now);
  void take_again(Direction& direction, const Direction& other, int64_t begin, int64_t end, const TcpSegment& segment,
                  Now now);
  void take_ack(Direction& direction, Direction& acknowledged, const TcpSegment& segment);
  void take_window(Direction& direction, const TcpSegment& segment, Now now);
  void report(PacketEventKind kind, const Direction& direction, const TcpSegment& segment, Now now);
  void finish(Direction& direction, const Direction& other, int64_t end_ns);

  std::function<void(const PacketEvent&)> event_;
  std::function<void(PacketFlow)> done_;
  std::unordered_map<Key, Connection, KeyHash> connections_;
  int32_t number_ = 0;
  size_t segments_ = 0;
  uint64_t not_kept_ = 0;
  uint64_t copies_ = 0;
};

}  // namespace stalltrace::import
