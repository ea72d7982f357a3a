// SPDX-License-Identifier: Apache-2.0
// What a packet says of a TCP connection. Headers after RFC 791, 8200, 9293, 7323; link layers after the list of
// LINKTYPE_ values. Only the outermost IP header is read: nothing is looked for inside of tunnels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace stalltrace::import {

/// An IPv4 address is mapped into IPv6 (::ffff:a.b.c.d).
using IpAddress = std::array<unsigned char, 16>;
/// "10.0.0.1", or as in RFC 5952.
std::string format_address(const IpAddress& address);

struct TcpSegment {
  IpAddress source{};
  IpAddress destination{};
  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint32_t seq = 0;
  uint32_t ack = 0;
  uint32_t payload_bytes = 0;
  uint16_t window = 0;
  uint16_t identification = 0;  // of an IPv4 packet: another one when a segment is sent again; 0: none
  bool syn = false;
  bool fin = false;
  bool reset = false;
  bool has_ack = false;
  std::optional<uint16_t> mss;
};

/// An ICMP message about a packet of others.
struct IcmpError {
  IpAddress sender{};
  IpAddress source{};  // of the packet that it is about
  IpAddress destination{};
  bool too_big = false;  // else: the destination can't be reached
  uint32_t mtu = 0;      // 0: not stated
};

/// Nothing if it is of another kind, a later fragment, or too short.
std::variant<std::monostate, TcpSegment, IcmpError> read_packet(std::string_view bytes, uint32_t link_type,
                                                                uint64_t size_bytes);

}  // namespace stalltrace::import
