// SPDX-License-Identifier: Apache-2.0
// Hashes that are stored or compared across hosts: identities of communicators, nodes and stacks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace stalltrace {

inline constexpr uint64_t kSplitmixSeed = 0x9e3779b97f4a7c15ULL;

/// The finaliser of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
constexpr uint64_t splitmix64_mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

/// Folds one 64-bit word into a running hash.
constexpr uint64_t splitmix64_fold(uint64_t hash, uint64_t word) { return splitmix64_mix(hash ^ word); }

/// Folds text, eight little-endian bytes at a time, the last word zero-padded, then the length.
uint64_t splitmix64_text(std::string_view text, uint64_t seed = kSplitmixSeed);

}  // namespace stalltrace
