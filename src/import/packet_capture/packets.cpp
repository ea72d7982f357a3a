// SPDX-License-Identifier: Apache-2.0
#include "import/packet_capture/packets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/clock.h"

namespace stalltrace::import {
namespace {

constexpr uint32_t kPcapUs = 0xa1b2c3d4;
constexpr uint32_t kPcapNs = 0xa1b23c4d;
constexpr uint32_t kSection = 0x0a0d0d0a;  // the same in both byte orders
constexpr uint32_t kByteOrder = 0x1a2b3c4d;
constexpr uint32_t kInterface = 1;
constexpr uint32_t kOldPacket = 2;
constexpr uint32_t kSimplePacket = 3;
constexpr uint32_t kStatistics = 5;
constexpr uint32_t kPacket = 6;
constexpr size_t kMostInterfaces = 4096;
constexpr uint32_t kLargestPacket = 1U << 20;  // with segmentation offload 64 KiB and headers
constexpr uint32_t kLargestBlock = 16U << 20;
constexpr size_t kBufferBytes = size_t{256} << 10;

uint32_t load32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  if (at + sizeof(value) <= bytes.size()) {
    std::memcpy(&value, bytes.data() + at, sizeof(value));
  }
  return value;
}

constexpr uint32_t swap32(uint32_t value) { return __builtin_bswap32(value); }

}  // namespace

PacketReader::PacketReader(ByteStream bytes) : bytes_(std::move(bytes)), buffer_(kBufferBytes, '\0') {}

bool PacketReader::fail(std::string_view why) {
  if (problem_.empty()) {
    problem_ = bytes_.problem().empty() ? fmt::format("behind packet {}: {}", number_, why) : bytes_.problem();
  }
  return false;
}

uint16_t PacketReader::u16(std::string_view bytes, size_t at) const {
  uint16_t value = 0;
  if (at + sizeof(value) <= bytes.size()) {
    std::memcpy(&value, bytes.data() + at, sizeof(value));
  }
  return swapped_ ? __builtin_bswap16(value) : value;
}
uint32_t PacketReader::u32(std::string_view bytes, size_t at) const {
  const uint32_t value = load32(bytes, at);
  return swapped_ ? swap32(value) : value;
}

uint64_t PacketReader::u64(std::string_view bytes, size_t at) const {
  uint64_t value = 0;
  if (at + sizeof(value) <= bytes.size()) {
    std::memcpy(&value, bytes.data() + at, sizeof(value));
  }
  return swapped_ ? __builtin_bswap64(value) : value;
}

/// The next bytes of the file; false if there are fewer. `at_end_` if there are none.
bool PacketReader::take(size_t bytes, std::string_view& out) {
  if (end_ - at_ < bytes) {
    std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
    end_ -= at_;
    at_ = 0;
    if (buffer_.size() < bytes) {
      buffer_.resize(bytes);
    }
    while (end_ < bytes) {
      const size_t got = bytes_.read(buffer_.data() + end_, buffer_.size() - end_);
      if (got == 0) {
        at_end_ = end_ == 0;
        return false;
      }
      end_ += got;
    }
  }
  out = std::string_view(buffer_).substr(at_, bytes);
  at_ += bytes;
  return true;
}

bool PacketReader::begin() {
  begun_ = true;
  std::string_view head;
  if (!take(4, head)) {
    return fail("it is empty");
  }
  const uint32_t magic = load32(head, 0);
  if (magic == kSection) {
    next_generation_ = true;
    at_ = 0;  // the section's block is read as any other
    return true;
  }
  swapped_ = magic == swap32(kPcapUs) || magic == swap32(kPcapNs);
  const uint32_t known = swapped_ ? swap32(magic) : magic;
  if (known != kPcapUs && known != kPcapNs) {
    return fail("no packet capture");
  }
  if (!take(20, head)) {
    return fail("it ends in its header");
  }
  pcap_.units_per_second = known == kPcapNs ? kNsPerSecond : kNsPerSecond / kNsPerUs;
  pcap_.link_type = u32(head, 16) & 0xffff;  // the upper half has the length of a checksum
  return true;
}

bool PacketReader::next(Packet& packet) {
  if (!problem_.empty() || (!begun_ && !begin())) {
    return false;
  }
  return next_generation_ ? next_of_pcapng(packet) : next_of_pcap(packet);
}

bool PacketReader::next_of_pcap(Packet& packet) {
  std::string_view head;
  if (!take(16, head)) {
    return at_end_ && bytes_.problem().empty() ? false : fail("the file ends in a packet's header");
  }
  const uint32_t kept = u32(head, 8);
  const uint64_t units = u32(head, 4);
  packet.timestamp_ns = static_cast<int64_t>(u32(head, 0)) * kNsPerSecond +
                        static_cast<int64_t>(std::min<uint64_t>(units, pcap_.units_per_second - 1) *
                                             (kNsPerSecond / pcap_.units_per_second));
  packet.size_bytes = u32(head, 12);
  packet.link_type = pcap_.link_type;
  if (kept > kLargestPacket) {
    return fail(fmt::format("a packet of {} bytes", kept));
  }
  if (!take(kept, packet.bytes)) {
    return fail("the file ends in a packet");
  }
  packet.number = ++number_;
  return true;
}

bool PacketReader::next_of_pcapng(Packet& packet) {
  while (true) {
    std::string_view head;
    if (!take(8, head)) {
      return at_end_ && bytes_.problem().empty() ? false : fail("the file ends in a block");
    }
    const std::string start(head);
    if (load32(start, 0) == kSection) {
      if (!begin_section(std::string_view(start).substr(4))) {
        return false;
      }
      continue;
    }
    const uint32_t type = u32(start, 0);
    const uint32_t length = u32(start, 4);
    if (length < 12 || length % 4 != 0 || length > kLargestBlock) {
      return fail(fmt::format("a block of {} bytes", length));
    }
    std::string_view body;
    if (!take(length - 8, body)) {
      return fail("the file ends in a block");
    }
    body.remove_suffix(4);  // its length again
    if (type == kInterface) {
      read_interface(body);
    } else if (type == kStatistics) {
      read_statistics(body);
    } else if (type == kPacket || type == kSimplePacket || type == kOldPacket) {
      block_.assign(body);
      if (read_block(type, packet)) {
        return true;
      }
      if (!problem_.empty()) {
        return false;
      }
    }
  }
}

bool PacketReader::begin_section(std::string_view length) {
  std::string_view order;
  const std::string kept(length);
  if (!take(4, order)) {
    return fail("the file ends in a block");
  }
  const uint32_t magic = load32(order, 0);
  if (magic != kByteOrder && magic != swap32(kByteOrder)) {
    return fail("a section without a byte order");
  }
  swapped_ = magic != kByteOrder;
  const uint32_t bytes = u32(kept, 0);
  if (bytes < 28 || bytes % 4 != 0 || bytes > kLargestBlock) {
    return fail(fmt::format("a block of {} bytes", bytes));
  }
  interfaces_.clear();
  std::string_view body;
  return take(bytes - 12, body) || fail("the file ends in a block");
}

/// A block with a packet; false if it is left out.
bool PacketReader::read_block(uint32_t type, Packet& packet) {
  const std::string_view body = block_;
  const size_t head_bytes = type == kSimplePacket ? 4 : 20;
  const uint32_t number = type == kPacket ? u32(body, 0) : type == kOldPacket ? u16(body, 0) : 0;
  if (body.size() < head_bytes || number >= interfaces_.size()) {
    return fail("a packet of no interface");
  }
  const Interface& interface = interfaces_[number];
  uint32_t kept = 0;
  if (type == kSimplePacket) {
    packet.size_bytes = u32(body, 0);
    packet.timestamp_ns = 0;
    kept = static_cast<uint32_t>(std::min<uint64_t>(packet.size_bytes, body.size() - head_bytes));
  } else {
    packet.timestamp_ns = time_of(interface, u32(body, 4), u32(body, 8));
    kept = u32(body, 12);
    packet.size_bytes = u32(body, 16);
  }
  if (kept > body.size() - head_bytes) {
    return fail("a packet is longer than its block");
  }
  packet.link_type = interface.link_type;
  packet.bytes = body.substr(head_bytes, kept);
  packet.number = ++number_;
  return true;
}

int64_t PacketReader::time_of(const Interface& interface, uint32_t high, uint32_t low) {
  const uint64_t units = (uint64_t{high} << 32) | low;
  const uint64_t seconds = units / interface.units_per_second;
  const uint64_t rest = units % interface.units_per_second;
  constexpr int64_t kMostSeconds = std::numeric_limits<int64_t>::max() / kNsPerSecond / 4;
  const int64_t whole = static_cast<int64_t>(std::min<uint64_t>(seconds, kMostSeconds)) + interface.offset_s;
  const auto part = static_cast<int64_t>(static_cast<double>(rest) / static_cast<double>(interface.units_per_second) *
                                         static_cast<double>(kNsPerSecond));
  return whole < 0 ? 0 : whole * kNsPerSecond + part;
}

void PacketReader::read_interface(std::string_view body) {
  if (interfaces_.size() == kMostInterfaces) {
    return;
  }
  Interface interface;
  interface.link_type = u16(body, 0);
  for (size_t at = 8; at + 4 <= body.size();) {
    const uint16_t code = u16(body, at);
    const size_t length = u16(body, at + 2);
    at += 4;
    if (code == 0 || at + length > body.size()) {
      break;
    }
    if (code == 9 && length == 1) {  // if_tsresol: a power of 10, or of 2
      const auto resolution = static_cast<unsigned char>(body[at]);
      const unsigned power = resolution & 0x7fU;
      uint64_t units = 1;
      for (unsigned i = 0; i < power && units < (uint64_t{1} << 59); ++i) {
        units *= (resolution & 0x80U) != 0 ? 2 : 10;
      }
      interface.units_per_second = units;
    } else if (code == 14 && length == 8) {  // if_tsoffset: seconds
      constexpr int64_t kMostOffset = 2'000'000'000;
      interface.offset_s = std::clamp(static_cast<int64_t>(u64(body, at)), -kMostOffset, kMostOffset);
    }
    at += (length + 3) / 4 * 4;
  }
  interfaces_.push_back(interface);
}

void PacketReader::read_statistics(std::string_view body) {
  const uint32_t number = u32(body, 0);
  if (number >= interfaces_.size()) {
    return;
  }
  int64_t missed = 0;
  for (size_t at = 12; at + 4 <= body.size();) {
    const uint16_t code = u16(body, at);
    const size_t length = u16(body, at + 2);
    at += 4;
    if (code == 0 || at + length > body.size()) {
      break;
    }
    if ((code == 5 || code == 7) && length == 8) {  // isb_ifdrop, isb_osdrop
      missed += static_cast<int64_t>(std::min<uint64_t>(u64(body, at), std::numeric_limits<uint32_t>::max()));
    }
    at += (length + 3) / 4 * 4;
  }
  missed_ += std::max<int64_t>(missed - interfaces_[number].missed, 0);
  interfaces_[number].missed = missed;
}

bool is_packet_capture(std::string_view head) {
  if (head.size() < 24) {
    return false;
  }
  const uint32_t magic = load32(head, 0);
  if (magic == kSection) {
    const uint32_t order = load32(head, 8);
    return order == kByteOrder || order == swap32(kByteOrder);
  }
  return magic == kPcapUs || magic == kPcapNs || magic == swap32(kPcapUs) || magic == swap32(kPcapNs);
}

}  // namespace stalltrace::import
