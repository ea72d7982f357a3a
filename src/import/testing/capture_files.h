// SPDX-License-Identifier: Apache-2.0
// Packet captures for tests, made byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stalltrace::import {

/// Numbers in network byte order.
inline std::string be16(uint32_t value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }
inline std::string be32(uint32_t value) { return be16(value >> 16) + be16(value & 0xffff); }
/// In the file's order: little endian.
inline std::string le16(uint32_t value) { return {static_cast<char>(value), static_cast<char>(value >> 8)}; }
inline std::string le32(uint32_t value) { return le16(value & 0xffff) + le16(value >> 16); }

struct TcpPacket {
  int source = 1;  // host 10.0.0.N, port 5000 + N
  int destination = 2;
  uint32_t seq = 0;
  uint32_t ack = 0;
  uint32_t payload = 0;
  std::string_view flags = "A";  // of S, A, F, R
  uint16_t window = 500;
  uint32_t port = 0;  // added to the source's
  uint16_t identification = 0;
};

inline std::string ip4(int source, int destination, uint8_t protocol, const std::string& payload, uint32_t more = 0,
                       uint16_t identification = 0) {
  return std::string("\x45\0", 2) + be16(static_cast<uint32_t>(20 + payload.size() + more)) + be16(identification) +
         be16(0) + std::string(1, '\x40') + static_cast<char>(protocol) + be16(0) +
         be32(0x0a000000U + static_cast<uint32_t>(source)) + be32(0x0a000000U + static_cast<uint32_t>(destination)) +
         payload;
}

/// An IPv4 packet, whose payload is left out as with a short capture length.
inline std::string tcp(const TcpPacket& packet) {
  unsigned flags = 0;
  for (const char flag : packet.flags) {
    flags |= flag == 'F' ? 1U : flag == 'S' ? 2U : flag == 'R' ? 4U : 16U;
  }
  const bool syn = (flags & 2U) != 0;
  std::string header = be16(static_cast<uint32_t>(5000 + packet.source) + packet.port) +
                       be16(static_cast<uint32_t>(5000 + packet.destination)) + be32(packet.seq) + be32(packet.ack) +
                       static_cast<char>(syn ? 0x60 : 0x50) + static_cast<char>(flags) + be16(packet.window) + be32(0);
  if (packet.source > packet.destination) {  // the port belongs to the connection
    header = be16(static_cast<uint32_t>(5000 + packet.source)) +
             be16(static_cast<uint32_t>(5000 + packet.destination) + packet.port) + header.substr(4);
  }
  if (syn) {
    header += std::string("\x02\x04", 2) + be16(1460);
  }
  return ip4(packet.source, packet.destination, 6, header, packet.payload, packet.identification);
}

inline std::string ethernet(const std::string& ip) { return std::string(12, '\x11') + be16(0x0800) + ip; }

class PcapFile {
 public:
  explicit PcapFile(bool nanoseconds = false) : nanoseconds_(nanoseconds) {
    text = le32(nanoseconds ? 0xa1b23c4d : 0xa1b2c3d4) + le16(2) + le16(4) + le32(0) + le32(0) + le32(65535) + le32(1);
  }
  PcapFile& add_ip(double seconds, const std::string& ip, uint32_t cut = 0) {
    const std::string frame = ethernet(ip);
    const auto whole = static_cast<uint32_t>(seconds);
    const double part = seconds - whole;
    text += le32(1'777'975'200U + whole) + le32(static_cast<uint32_t>(part * (nanoseconds_ ? 1e9 : 1e6) + 0.5)) +
            le32(static_cast<uint32_t>(frame.size())) + le32(static_cast<uint32_t>(frame.size()) + cut) + frame;
    return *this;
  }
  PcapFile& add(double seconds, const TcpPacket& packet) { return add_ip(seconds, tcp(packet), packet.payload); }

  std::string text;

 private:
  bool nanoseconds_;
};

inline std::string block(uint32_t type, std::string body) {
  body.resize((body.size() + 3) / 4 * 4);
  const std::string length = le32(static_cast<uint32_t>(body.size()) + 12);
  return le32(type) + length + body + length;
}

/// A section with one interface of nanoseconds.
inline std::string pcapng_begin() {
  return block(0x0a0d0d0a, le32(0x1a2b3c4d) + le16(1) + le16(0) + le32(0xffffffff) + le32(0xffffffff)) +
         block(1, le16(1) + le16(0) + le32(0) + le16(9) + le16(1) + std::string("\x09\0\0\0", 4) + le16(0) + le16(0));
}
inline std::string pcapng_packet(int64_t time_ns, const std::string& ip, uint32_t cut = 0) {
  const std::string frame = ethernet(ip);
  return block(6, le32(0) + le32(static_cast<uint32_t>(time_ns >> 32)) +
                      le32(static_cast<uint32_t>(time_ns & 0xffffffff)) + le32(static_cast<uint32_t>(frame.size())) +
                      le32(static_cast<uint32_t>(frame.size()) + cut) + frame);
}

}  // namespace stalltrace::import
