// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/collective/unique_id.h"

#include <bit>
#include <cstring>

#include "base/hash.h"

namespace stalltrace::capture {
namespace {

static_assert(std::endian::native == std::endian::little, "words of an id are little-endian");

uint64_t word_at(std::span<const std::byte, ST_UNIQUE_ID_BYTES> id, size_t index) {
  uint64_t word = 0;
  std::memcpy(&word, id.data() + index * sizeof word, sizeof word);
  return word;
}

constexpr size_t kWords = ST_UNIQUE_ID_BYTES / sizeof(uint64_t);

}  // namespace

CommHash comm_id_hash(std::span<const std::byte, ST_UNIQUE_ID_BYTES> id) {
  uint64_t hash = kSplitmixSeed;
  for (size_t i = 0; i < kWords; ++i) {
    hash = splitmix64_fold(hash, word_at(id, i));
  }
  return hash;
}

uint64_t nccl_comm_hash(std::span<const std::byte, ST_UNIQUE_ID_BYTES> id) {
  uint64_t acc0 = 1 ^ static_cast<uint64_t>(ST_UNIQUE_ID_BYTES);
  uint64_t acc1 = 1;
  for (size_t i = 0; i < kWords; ++i) {
    acc0 += acc1;
    acc1 ^= acc0;
    acc0 ^= acc0 >> 31;
    acc0 *= 0x9de62bbc8cef3ce3ULL;
    acc1 ^= acc1 >> 32;
    acc1 *= 0x485cd6311b599e79ULL;
    acc0 += word_at(id, i);
  }
  uint64_t hash = acc0;
  hash ^= hash >> 31;
  hash *= 0xbac3bd562846de6bULL;
  hash += acc1;
  hash ^= hash >> 32;
  hash *= 0x995a187a14e7b445ULL;
  return hash;
}

CommHash split_comm_hash(CommHash parent, uint64_t ordinal, int color) {
  if (parent == 0) {
    return 0;
  }
  return splitmix64_fold(splitmix64_fold(splitmix64_fold(kSplitmixSeed, parent), ordinal),
                         static_cast<uint64_t>(static_cast<int64_t>(color)));
}

}  // namespace stalltrace::capture
