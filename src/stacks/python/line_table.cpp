// SPDX-License-Identifier: Apache-2.0
#include "stacks/python/line_table.h"

namespace stalltrace::stacks {
namespace {

constexpr int64_t kLastLine = INT32_MAX;

std::optional<int32_t> checked(int64_t line) {
  return line > 0 && line < kLastLine ? std::optional(static_cast<int32_t>(line)) : std::nullopt;
}

/// Pairs of (bytes of code, lines), the second signed; a pair holds the increments before the code that follows.
std::optional<int32_t> by_pairs(std::span<const std::byte> table, int64_t line, int64_t offset) {
  int64_t address = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    address += static_cast<uint8_t>(table[i]);
    if (address > offset) {
      break;
    }
    line += static_cast<int8_t>(table[i + 1]);
  }
  return checked(line);
}

/// Pairs of (bytes of code, lines), the second signed; a pair applies to its own bytes, -128 means no line.
std::optional<int32_t> by_ranges(std::span<const std::byte> table, int64_t line, int64_t offset) {
  constexpr int8_t kNoLine = -128;
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    end += static_cast<uint8_t>(table[i]);
    const auto lines = static_cast<int8_t>(table[i + 1]);
    line += lines == kNoLine ? 0 : lines;
    if (offset < end) {
      return lines == kNoLine ? std::nullopt : checked(line);
    }
  }
  return std::nullopt;
}

/// Six bits per byte, the lowest first; 0x40 marks a continuation. The sign is the lowest bit.
int64_t signed_number(std::span<const std::byte> bytes) {
  constexpr size_t kMostBytes = 6;
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size() && i < kMostBytes; ++i) {
    value |= (static_cast<uint64_t>(bytes[i]) & 0x3fU) << (6 * i);
    if ((static_cast<uint8_t>(bytes[i]) & 0x40U) == 0) {
      break;
    }
  }
  const auto magnitude = static_cast<int64_t>(value >> 1U);
  return (value & 1U) != 0 ? -magnitude : magnitude;
}

/// Entries that begin with a byte of 0x80: kind (4 bits), code units less one (3 bits), then numbers.
std::optional<int32_t> by_locations(std::span<const std::byte> table, int64_t line, int64_t offset) {
  constexpr uint8_t kFirst = 0x80;
  constexpr uint8_t kOneLine = 10;    // 10 to 12: line increment of 0 to 2, with columns
  constexpr uint8_t kNoColumns = 13;  // 13, and 14 with columns: the line increment follows as a number
  constexpr uint8_t kLong = 14;
  constexpr uint8_t kNone = 15;
  constexpr int64_t kUnitBytes = 2;
  int64_t end = 0;
  for (size_t i = 0; i < table.size();) {
    const auto head = static_cast<uint8_t>(table[i]);
    if ((head & kFirst) == 0) {
      return std::nullopt;
    }
    const uint8_t kind = (head >> 3U) & 15U;
    end += ((head & 7U) + 1) * kUnitBytes;
    line += kind == kNoColumns || kind == kLong     ? signed_number(table.subspan(i + 1))
            : kind >= kOneLine && kind < kNoColumns ? kind - kOneLine
                                                    : 0;
    if (offset < end) {
      return kind == kNone ? std::nullopt : checked(line);
    }
    do {
      ++i;
    } while (i < table.size() && (static_cast<uint8_t>(table[i]) & kFirst) == 0);
  }
  return std::nullopt;
}

}  // namespace

std::optional<int32_t> line_of(uint32_t minor, std::span<const std::byte> table, int32_t first_line, int64_t offset) {
  constexpr uint32_t kRanges = 10;
  constexpr uint32_t kLocations = 11;
  if (offset < 0) {
    return checked(first_line);
  }
  return minor < kRanges      ? by_pairs(table, first_line, offset)
         : minor < kLocations ? by_ranges(table, first_line, offset)
                              : by_locations(table, first_line, offset);
}

}  // namespace stalltrace::stacks
