// SPDX-License-Identifier: Apache-2.0
// The packets of a capture file: pcap (draft-ietf-opsawg-pcap) in both byte orders, with us or ns, and pcapng
// (draft-ietf-opsawg-pcapng).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "import/byte_stream.h"

namespace stalltrace::import {

struct Packet {
  int64_t timestamp_ns = 0;  // UTC; 0: it has none
  uint32_t link_type = 0;    // LINKTYPE_...
  uint64_t size_bytes = 0;   // on the network; more than `bytes` if it was cut
  std::string_view bytes;    // valid until the next call
  int64_t number = 0;        // in the file, from 1
};

class PacketReader {
 public:
  explicit PacketReader(ByteStream bytes);

  /// False at the end of the file, or where it can't be read any further (`problem`).
  bool next(Packet& packet);
  /// Why the packets end before the file does: "packet 17: ..."; empty: they don't.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// Packets that the capturing program says it lost.
  [[nodiscard]] int64_t missed() const { return missed_; }

 private:
  struct Interface {
    uint32_t link_type = 0;
    uint64_t units_per_second = 1'000'000;
    int64_t offset_s = 0;
    int64_t missed = 0;  // the newest count
  };

  bool begin();
  bool next_of_pcap(Packet& packet);
  bool next_of_pcapng(Packet& packet);
  bool begin_section(std::string_view length);
  bool read_block(uint32_t type, Packet& packet);
  void read_interface(std::string_view body);
  void read_statistics(std::string_view body);
  bool take(size_t bytes, std::string_view& out);
  bool fail(std::string_view why);
  [[nodiscard]] uint16_t u16(std::string_view bytes, size_t at) const;
  [[nodiscard]] uint32_t u32(std::string_view bytes, size_t at) const;
  [[nodiscard]] uint64_t u64(std::string_view bytes, size_t at) const;
  [[nodiscard]] static int64_t time_of(const Interface& interface, uint32_t high, uint32_t low);

  ByteStream bytes_;
  std::string buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  bool begun_ = false;
  bool swapped_ = false;  // the other byte order than ours
  bool next_generation_ = false;
  bool at_end_ = false;
  Interface pcap_;
  std::vector<Interface> interfaces_;
  std::string block_;
  int64_t number_ = 0;
  int64_t missed_ = 0;
  std::string problem_;
};

/// By the file's first bytes.
bool is_packet_capture(std::string_view head);

}  // namespace stalltrace::import
