// SPDX-License-Identifier: Apache-2.0
// Variable-length integers of every length, truncated at every byte.
#include "store/sqlite/file_numbers.h"

#include <gtest/gtest.h>

#include <vector>

namespace stalltrace::store {
namespace {

/// SQLite's encoding: seven bits a byte; a ninth byte holds eight.
std::vector<uint8_t> written(uint64_t value) {
  std::vector<uint8_t> bytes;
  if (value >> 56 != 0) {
    bytes.push_back(static_cast<uint8_t>(value));
    value >>= 8;
    for (int i = 0; i < 8; ++i, value >>= 7) {
      bytes.insert(bytes.begin(), static_cast<uint8_t>(0x80 | (value & 0x7f)));
    }
    return bytes;
  }
  for (bool last = true; last || value != 0; value >>= 7, last = false) {
    bytes.insert(bytes.begin(), static_cast<uint8_t>((last ? 0 : 0x80) | (value & 0x7f)));
  }
  return bytes;
}

/// Adds readable bytes that would continue the number.
std::vector<uint8_t> padded(std::vector<uint8_t> bytes) {
  bytes.insert(bytes.end(), kReadBehind, 0xff);
  return bytes;
}

TEST(FileNumbers, VarintsOfEveryLength) {
  size_t longest = 0;
  for (int bit = 0; bit < 64; ++bit) {
    for (const uint64_t value : {1ULL << bit, (1ULL << bit) - 1, (1ULL << bit) | 0x55, ~0ULL >> bit}) {
      const std::vector<uint8_t> bytes = written(value);
      const std::vector<uint8_t> page = padded(bytes);
      const uint8_t* at = page.data();
      EXPECT_EQ(varint(at, page.data() + bytes.size()), value);
      EXPECT_EQ(at, page.data() + bytes.size());
      longest = std::max(longest, bytes.size());
    }
  }
  EXPECT_EQ(longest, 9U);
}

TEST(FileNumbers, AVarintCutOffIsNone) {
  for (int bit = 0; bit < 64; ++bit) {
    const std::vector<uint8_t> bytes = written(1ULL << bit);
    for (size_t there = 0; there < bytes.size(); ++there) {
      const std::vector<uint8_t> page = padded({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(there)});
      const uint8_t* at = page.data();
      varint(at, page.data() + there);
      EXPECT_EQ(at, nullptr) << bit << " " << there;
    }
  }
}

}  // namespace
}  // namespace stalltrace::store
