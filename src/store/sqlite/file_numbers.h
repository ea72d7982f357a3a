// SPDX-License-Identifier: Apache-2.0
// Numbers in SQLite's file format (sections 1.3 and 1.6 of its documentation): most significant byte first. Internal to
// store/.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace stalltrace::store {

/// A number of `count` bytes, at most 4.
inline uint32_t big_endian(const uint8_t* bytes, int count) {
  uint32_t value = 0;
  for (int i = 0; i < count; ++i) {
    value = value << 8 | bytes[i];
  }
  return value;
}

inline uint64_t eight_bytes(const uint8_t* bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

/// Number of bytes after a number that must be readable; their values don't matter.
inline constexpr size_t kReadBehind = 8;

/// Joins the lower seven bits of each byte of `word`.
constexpr uint64_t join_sevens(uint64_t word) {
  word = (word & 0x007f'007f'007f'007f) | (word & 0x7f00'7f00'7f00'7f00) >> 1;
  word = (word & 0x0000'3fff'0000'3fff) | (word & 0x3fff'0000'3fff'0000) >> 2;
  return (word & 0x0000'0000'0fff'ffff) | (word & 0x0fff'ffff'0000'0000) >> 4;
}

/// Reads a variable-length integer of 1 to 9 bytes before `end`; moves `at` past it, or sets it to null if it is
/// truncated. kReadBehind bytes after `end` must be readable.
inline uint64_t varint(const uint8_t*& at, const uint8_t* end) {
  if (at < end && *at < 0x80) [[likely]] {
    return *at++;
  }
  constexpr uint64_t kContinued = 0x8080'8080'8080'8080;
  const uint64_t word = at < end ? eight_bytes(at) : 0;
  const uint64_t last = ~word & kContinued;
  const int bytes = last == 0 ? 9 : std::countl_zero(last) / 8 + 1;
  if (end - at < bytes) {
    at = nullptr;
    return 0;
  }
  const uint8_t* const begin = at;
  at += bytes;
  return last == 0 ? join_sevens(word) << 8 | begin[8] : join_sevens(word >> (64 - 8 * bytes));
}

}  // namespace stalltrace::store
