// SPDX-License-Identifier: Apache-2.0
// Both hashes of a unique id, against a second implementation of the published formulas and against literals that were
// computed with neither.
#include "capture/decode/collective/unique_id.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace stalltrace::capture {
namespace {

using Id = std::array<uint8_t, ST_UNIQUE_ID_BYTES>;

Id counting_id() {
  Id id{};
  for (size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<uint8_t>(i);
  }
  return id;
}

uint64_t ours(const Id& id) { return comm_id_hash(std::as_bytes(std::span(id))); }
uint64_t nccls(const Id& id) { return nccl_comm_hash(std::as_bytes(std::span(id))); }

/// Byte by byte, to share no assumption about byte order with the code under test.
std::array<uint64_t, 16> words_of(const Id& id) {
  std::array<uint64_t, 16> words{};
  for (size_t i = 0; i < id.size(); ++i) {
    words[i / 8] |= uint64_t{id[i]} << (8 * (i % 8));
  }
  return words;
}

uint64_t reference_splitmix_fold(const Id& id) {
  uint64_t h = 0x9e3779b97f4a7c15ULL;
  for (const uint64_t word : words_of(id)) {
    uint64_t x = h ^ word;
    x = x ^ (x >> 30);
    x = x * 0xbf58476d1ce4e5b9ULL;
    x = x ^ (x >> 27);
    x = x * 0x94d049bb133111ebULL;
    x = x ^ (x >> 31);
    h = x;
  }
  return h;
}

uint64_t reference_nccl_hash(const Id& id) {
  uint64_t acc[2] = {1, 1};
  acc[0] = acc[0] ^ 128;
  for (const uint64_t word : words_of(id)) {
    acc[0] = acc[0] + acc[1];
    acc[1] = acc[1] ^ acc[0];
    acc[0] = acc[0] ^ (acc[0] >> 31);
    acc[0] = acc[0] * 0x9de62bbc8cef3ce3ULL;
    acc[1] = acc[1] ^ (acc[1] >> 32);
    acc[1] = acc[1] * 0x485cd6311b599e79ULL;
    acc[0] = acc[0] + word;
  }
  uint64_t h = acc[0];
  h = h ^ (h >> 31);
  h = h * 0xbac3bd562846de6bULL;
  h = h + acc[1];
  h = h ^ (h >> 32);
  return h * 0x995a187a14e7b445ULL;
}

TEST(UniqueId, AgreesWithTheFormulas) {
  Id id = counting_id();
  for (int round = 0; round < 64; ++round) {
    EXPECT_EQ(ours(id), reference_splitmix_fold(id));
    EXPECT_EQ(nccls(id), reference_nccl_hash(id));
    for (size_t i = 0; i < id.size(); ++i) {
      id[i] = static_cast<uint8_t>(id[i] * 31 + round + 7);
    }
  }
}

TEST(UniqueId, GoldenVectors) {
  EXPECT_EQ(ours(Id{}), 0xa6701687d3cb53e0ULL);
  EXPECT_EQ(nccls(Id{}), 0xcc976ec6c24bb53cULL);
  EXPECT_EQ(ours(counting_id()), 0x6be39448e8f92cdaULL);
  EXPECT_EQ(nccls(counting_id()), 0x6afe1cc17717e1f4ULL);
}

TEST(UniqueId, EachByteCounts) {
  const Id base = counting_id();
  std::set<uint64_t> ours_seen{ours(base)};
  std::set<uint64_t> nccls_seen{nccls(base)};
  for (size_t i = 0; i < base.size(); ++i) {
    Id changed = base;
    changed[i] ^= 0x80;
    EXPECT_TRUE(ours_seen.insert(ours(changed)).second) << "byte " << i;
    EXPECT_TRUE(nccls_seen.insert(nccls(changed)).second) << "byte " << i;
  }
}

TEST(UniqueId, SplitsDifferByParentOrdinalAndColor) {
  const std::set<uint64_t> hashes{split_comm_hash(1, 0, 0), split_comm_hash(1, 0, 1), split_comm_hash(1, 1, 0),
                                  split_comm_hash(2, 0, 0), split_comm_hash(1, 0, -1)};
  EXPECT_EQ(hashes.size(), 5U);
  EXPECT_EQ(split_comm_hash(1, 0, 1), split_comm_hash(1, 0, 1));
}

TEST(UniqueId, ASplitOfAnUnknownCommunicatorIsUnknown) { EXPECT_EQ(split_comm_hash(0, 3, 1), 0U); }

}  // namespace
}  // namespace stalltrace::capture
