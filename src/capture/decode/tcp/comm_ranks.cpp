// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/tcp/comm_ranks.h"

namespace stalltrace::capture {
namespace {

constexpr int32_t kDisputed = -1;
constexpr size_t kMostEntries = 8192;

/// Stores a claim, or that claims differ.
template <typename Map, typename Key>
void claim(Map& claims, Key key, int32_t value) {
  const auto known = claims.find(key);
  if (known == claims.end()) {
    if (claims.size() < kMostEntries) {
      claims.emplace(std::move(key), value);
    }
  } else if (known->second != value) {
    known->second = kDisputed;
  }
}

template <typename Map, typename Key>
std::optional<int32_t> undisputed(const Map& claims, const Key& key) {
  const auto known = claims.find(key);
  return known == claims.end() || known->second == kDisputed ? std::nullopt : std::optional(known->second);
}

}  // namespace

void CommRankMap::member(uint64_t comm, int32_t rank, int32_t pid) { claim(processes_, std::pair(comm, rank), pid); }

std::optional<int32_t> CommRankMap::process_of(uint64_t comm, int32_t rank) const {
  return undisputed(processes_, std::pair(comm, rank));
}

void CommRankMap::forget_process(int32_t pid) {
  std::erase_if(processes_, [pid](const auto& entry) { return entry.second == pid; });
  worlds_.erase(pid);
}

void CommRankMap::host(uint64_t world, const std::string& address, int32_t rank) {
  claim(hosts_, std::pair(world, address), rank);
}

std::optional<int32_t> CommRankMap::rank_at(uint64_t world, const std::string& address) const {
  return undisputed(hosts_, std::pair(world, address));
}

std::optional<uint64_t> CommRankMap::world_of(int32_t pid) const {
  const auto known = worlds_.find(pid);
  return known == worlds_.end() ? std::nullopt : std::optional(known->second);
}

}  // namespace stalltrace::capture
