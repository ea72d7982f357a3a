// SPDX-License-Identifier: Apache-2.0
#include "import/packet_capture/tcp_segment.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace stalltrace::import {
namespace {

constexpr uint16_t kIpv4 = 0x0800;
constexpr uint16_t kIpv6 = 0x86dd;
constexpr uint8_t kIcmp = 1;
constexpr uint8_t kTcp = 6;
constexpr uint8_t kIcmp6 = 58;
constexpr size_t kMostExtensions = 8;

using Read = std::variant<std::monostate, TcpSegment, IcmpError>;

/// Big-endian numbers; 0 behind the end.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  [[nodiscard]] uint8_t u8(size_t at) const { return at < bytes_.size() ? static_cast<uint8_t>(bytes_[at]) : 0; }
  [[nodiscard]] uint16_t u16(size_t at) const { return static_cast<uint16_t>((u8(at) << 8) | u8(at + 1)); }
  [[nodiscard]] uint32_t u32(size_t at) const { return (uint32_t{u16(at)} << 16) | u16(at + 2); }
  [[nodiscard]] Bytes from(size_t at) const { return Bytes(bytes_.substr(std::min(at, bytes_.size()))); }
  [[nodiscard]] IpAddress address4(size_t at) const {
    IpAddress address{};
    address[10] = address[11] = 0xff;
    for (size_t i = 0; i < 4; ++i) {
      address[12 + i] = u8(at + i);
    }
    return address;
  }
  [[nodiscard]] IpAddress address6(size_t at) const {
    IpAddress address{};
    for (size_t i = 0; i < address.size(); ++i) {
      address[i] = u8(at + i);
    }
    return address;
  }

 private:
  std::string_view bytes_;
};

/// An IP packet: its addresses and what it carries.
struct Ip {
  IpAddress source{};
  IpAddress destination{};
  uint8_t protocol = 0;
  size_t header_bytes = 0;
  uint64_t payload_bytes = 0;  // on the network
  uint16_t identification = 0;
};

std::optional<Ip> read_ip4(const Bytes& bytes, uint64_t size_bytes) {
  const size_t header = size_t{4} * (bytes.u8(0) & 0xfU);
  constexpr uint16_t kOffset = 0x1fff;
  if (bytes.size() < 20 || header < 20 || (bytes.u16(6) & kOffset) != 0) {
    return std::nullopt;
  }
  // 0: a large packet that the host's network card splits
  const uint64_t total = bytes.u16(2) != 0 ? bytes.u16(2) : size_bytes;
  return Ip{.source = bytes.address4(12),
            .destination = bytes.address4(16),
            .protocol = bytes.u8(9),
            .header_bytes = header,
            .payload_bytes = total > header ? total - header : 0,
            .identification = bytes.u16(4)};
}

std::optional<Ip> read_ip6(const Bytes& bytes, uint64_t size_bytes) {
  constexpr size_t kHeader = 40;
  if (bytes.size() < kHeader) {
    return std::nullopt;
  }
  uint8_t protocol = bytes.u8(6);
  size_t at = kHeader;
  constexpr uint8_t kFragment = 44;
  for (size_t i = 0; i < kMostExtensions; ++i) {
    const bool extension = protocol == 0 || protocol == 43 || protocol == 60;
    if (!extension && protocol != kFragment) {
      break;
    }
    if (protocol == kFragment && (bytes.u16(at + 2) & 0xfff8U) != 0) {
      return std::nullopt;
    }
    const size_t length = protocol == kFragment ? 8 : size_t{8} * (bytes.u8(at + 1) + size_t{1});
    protocol = bytes.u8(at);
    at += length;
  }
  const uint64_t total = bytes.u16(4) != 0 ? kHeader + uint64_t{bytes.u16(4)} : size_bytes;
  return Ip{.source = bytes.address6(8),
            .destination = bytes.address6(24),
            .protocol = protocol,
            .header_bytes = at,
            .payload_bytes = total > at ? total - at : 0};
}

std::optional<Ip> read_ip(const Bytes& bytes, uint64_t size_bytes) {
  const unsigned version = bytes.u8(0) >> 4U;
  return version == 4 ? read_ip4(bytes, size_bytes) : version == 6 ? read_ip6(bytes, size_bytes) : std::nullopt;
}

/// Where the IP header begins; none if it is no IP packet.
std::optional<size_t> ip_offset(const Bytes& bytes, uint32_t link_type) {
  const auto of_ethernet = [&](size_t at) -> std::optional<size_t> {
    uint16_t type = bytes.u16(at);
    while ((type == 0x8100 || type == 0x88a8 || type == 0x9100) && at < 32) {  // VLAN tags
      at += 4;
      type = bytes.u16(at);
    }
    return type == kIpv4 || type == kIpv6 ? std::optional(at + 2) : std::nullopt;
  };
  switch (link_type) {
    case 0:    // BSD loopback: an address family in the host's byte order
    case 108:  // the same in network byte order
      return 4;
    case 1:  // Ethernet
      return of_ethernet(12);
    case 113:  // Linux "any": SLL
      return of_ethernet(14);
    case 276:  // SLL2
      return bytes.u16(0) == kIpv4 || bytes.u16(0) == kIpv6 ? std::optional<size_t>(20) : std::nullopt;
    case 12:
    case 14:
    case 101:  // IP itself
    case 228:
    case 229:
      return 0;
    default:
      return std::nullopt;
  }
}

std::optional<uint16_t> read_mss(const Bytes& tcp, size_t header) {
  for (size_t at = 20; at + 1 < header && at + 1 < tcp.size();) {
    const uint8_t kind = tcp.u8(at);
    if (kind == 0) {
      break;
    }
    const size_t length = kind == 1 ? 1 : std::max<size_t>(tcp.u8(at + 1), 2);
    if (kind == 2 && length == 4) {
      return tcp.u16(at + 2);
    }
    at += length;
  }
  return std::nullopt;
}

Read read_tcp(const Bytes& tcp, const Ip& ip) {
  const size_t header = size_t{4} * (tcp.u8(12) >> 4U);
  if (tcp.size() < 20 || header < 20) {
    return {};
  }
  const uint8_t flags = tcp.u8(13);
  TcpSegment segment{.source = ip.source, .destination = ip.destination};
  segment.source_port = tcp.u16(0);
  segment.destination_port = tcp.u16(2);
  segment.seq = tcp.u32(4);
  segment.ack = tcp.u32(8);
  segment.window = tcp.u16(14);
  segment.identification = ip.identification;
  segment.fin = (flags & 0x01U) != 0;
  segment.syn = (flags & 0x02U) != 0;
  segment.reset = (flags & 0x04U) != 0;
  segment.has_ack = (flags & 0x10U) != 0;
  constexpr uint64_t kMostPayload = 1U << 20;
  const uint64_t payload = ip.payload_bytes > header ? ip.payload_bytes - header : 0;
  segment.payload_bytes = static_cast<uint32_t>(std::min(payload, kMostPayload));
  if (segment.syn) {
    segment.mss = read_mss(tcp, header);
  }
  return segment;
}

Read read_icmp(const Bytes& icmp, const Ip& ip) {
  const uint8_t type = icmp.u8(0);
  const bool version6 = ip.protocol == kIcmp6;
  const bool too_big = version6 ? type == 2 : type == 3 && icmp.u8(1) == 4;
  const bool unreachable = version6 ? type == 1 : type == 3;
  const std::optional<Ip> about = too_big || unreachable ? read_ip(icmp.from(8), 0) : std::nullopt;
  if (!about) {
    return {};
  }
  return IcmpError{.sender = ip.source,
                   .source = about->source,
                   .destination = about->destination,
                   .too_big = too_big,
                   .mtu = !too_big   ? 0
                          : version6 ? icmp.u32(4)
                                     : icmp.u16(6)};
}

}  // namespace

std::string format_address(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const bool mapped = std::all_of(address.begin(), address.begin() + 10, [](unsigned char c) { return c == 0; }) &&
                      address[10] == 0xff && address[11] == 0xff;
  return ::inet_ntop(mapped ? AF_INET : AF_INET6, address.data() + (mapped ? 12 : 0), text, sizeof(text)) != nullptr
             ? text
             : "";
}

Read read_packet(std::string_view packet, uint32_t link_type, uint64_t size_bytes) {
  const Bytes bytes(packet);
  const auto offset = ip_offset(bytes, link_type);
  if (!offset || *offset >= bytes.size()) {
    return {};
  }
  const Bytes inner = bytes.from(*offset);
  const auto ip = read_ip(inner, size_bytes > *offset ? size_bytes - *offset : 0);
  if (!ip || ip->header_bytes >= inner.size()) {
    return {};
  }
  const Bytes payload = inner.from(ip->header_bytes);
  return ip->protocol == kTcp                              ? read_tcp(payload, *ip)
         : ip->protocol == kIcmp || ip->protocol == kIcmp6 ? read_icmp(payload, *ip)
                                                           : Read{};
}

}  // namespace stalltrace::import
