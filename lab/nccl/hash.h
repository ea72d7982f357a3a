// SPDX-License-Identifier: Apache-2.0
// NCCL's own hash of an identity, as its logs print it after `commId`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lab::nccl {

class IdHash {
 public:
  /// Adds `size` bytes, eight at a time, the last word zero-padded.
  IdHash& add(const void* bytes, size_t size) {
    const auto* from = static_cast<const char*>(bytes);
    a_ ^= size;
    while (size > 0) {
      a_ += b_;
      b_ ^= a_;
      a_ ^= a_ >> 31;
      a_ *= 0x9de62bbc8cef3ce3ULL;
      b_ ^= b_ >> 32;
      b_ *= 0x485cd6311b599e79ULL;
      const size_t word_bytes = std::min(size, sizeof(uint64_t));
      uint64_t word = 0;
      std::memcpy(&word, from, word_bytes);
      from += word_bytes;
      size -= word_bytes;
      a_ += word;
    }
    return *this;
  }

  [[nodiscard]] uint64_t digest() const {
    uint64_t hash = a_;
    hash ^= hash >> 31;
    hash *= 0xbac3bd562846de6bULL;
    hash += b_;
    hash ^= hash >> 32;
    hash *= 0x995a187a14e7b445ULL;
    return hash;
  }

 private:
  uint64_t a_ = 1;
  uint64_t b_ = 1;
};

inline uint64_t id_hash(const void* bytes, size_t size) { return IdHash().add(bytes, size).digest(); }

}  // namespace lab::nccl
