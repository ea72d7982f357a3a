// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers' wire format, as far as writing needs it (protobuf.dev/programming-guides/encoding): varints,
// 64-bit values and length-delimited fields, appended to a string.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace stalltrace::trace_export {

class ProtoMessage {
 public:
  /// Of an int32 or int64 a negative value takes ten bytes, as the format wants it.
  void varint(uint32_t field, uint64_t value) {
    raw_varint(field << 3U);
    raw_varint(value);
  }
  void integer(uint32_t field, int64_t value) { varint(field, static_cast<uint64_t>(value)); }
  void fixed64(uint32_t field, uint64_t value) {
    raw_varint(field << 3U | 1U);
    for (int byte = 0; byte < 8; ++byte) {
      bytes_ += static_cast<char>(value >> (8 * byte) & 0xffU);
    }
  }
  void real(uint32_t field, double value) { fixed64(field, std::bit_cast<uint64_t>(value)); }
  /// A string, bytes, or a message within.
  void bytes(uint32_t field, std::string_view content) {
    raw_varint(field << 3U | 2U);
    raw_varint(content.size());
    bytes_ += content;
  }
  void message(uint32_t field, const ProtoMessage& inner) { bytes(field, inner.bytes_); }

  [[nodiscard]] const std::string& content() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  void clear() { bytes_.clear(); }

 private:
  void raw_varint(uint64_t value) {
    char buffer[10];
    size_t length = 0;
    while (value >= 0x80) {
      buffer[length++] = static_cast<char>(value | 0x80U);
      value >>= 7U;
    }
    buffer[length++] = static_cast<char>(value);
    bytes_.append(buffer, length);
  }

  std::string bytes_;
};

}  // namespace stalltrace::trace_export
