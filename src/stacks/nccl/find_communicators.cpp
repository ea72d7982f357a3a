// SPDX-License-Identifier: Apache-2.0
#include "stacks/nccl/find_communicators.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "stacks/nccl/comm_layout.h"

namespace stalltrace::stacks {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
/// malloc() returns multiples of this on 64-bit machines, and NCCL allocates communicators by it.
constexpr size_t kAlignment = 16;
constexpr int32_t kMostDevices = 1024;

template <typename T>
bool read(Memory& memory, uint64_t address, T& into) {
  return memory.read(address, std::as_writable_bytes(std::span(&into, 1)));
}

struct Identity {
  uint64_t hash;
  int32_t rank;
  int32_t nranks;
  int32_t device;
  int32_t unused;
};

bool is_possible(const Identity& identity) {
  return is_possible_identity(identity.hash, identity.rank, identity.nranks) && identity.device >= 0 &&
         identity.device < kMostDevices;
}

bool read_counters(Memory& memory, uint64_t address, const CommLayout& layout, NcclCommunicator& into) {
  std::array<uint64_t, kCountedOperations.size()> counts{};
  const size_t wanted = layout.counter_words();
  const std::span<uint64_t> some = std::span(counts).first(wanted);
  if (wanted > 0 && !memory.read(address + layout.counters, std::as_writable_bytes(some))) {
    return false;
  }
  if (std::ranges::any_of(some, [](uint64_t count) { return count > kMostLaunches; })) {
    return false;
  }
  for (size_t i = 0; i < wanted; ++i) {
    const bool together = layout.counted == CommCounters::kCollectives;
    into.launched.emplace_back(together ? kAllCollectives : kCountedOperations[i], some[i]);
  }
  return true;
}

/// The communicator at an address that has the magic word, if it is one of that layout.
std::optional<NcclCommunicator> communicator_of(Memory& memory, uint64_t address, const CommLayout& layout) {
  uint64_t word = 0;
  Identity identity{};
  if (!read(memory, address + layout.end, word) || word != kNcclMagic ||
      !read(memory, address + layout.identity, identity) || !is_possible(identity)) {
    return std::nullopt;
  }
  NcclCommunicator found{.address = address,
                         .bytes = layout.end + static_cast<uint32_t>(sizeof word),
                         .hash = identity.hash,
                         .rank = identity.rank,
                         .nranks = identity.nranks,
                         .device = identity.device,
                         .launched = {}};
  return read_counters(memory, address, layout, found) ? std::optional(std::move(found)) : std::nullopt;
}

/// Which addresses are in one of some ranges.
class RangeSet {
 public:
  explicit RangeSet(std::span<const MemoryRange> ranges) : ranges_(ranges.begin(), ranges.end()) {
    std::ranges::sort(ranges_, {}, &MemoryRange::begin);
  }
  [[nodiscard]] bool contains(uint64_t address) const {
    const auto after = std::ranges::upper_bound(ranges_, address, {}, &MemoryRange::begin);
    return after != ranges_.begin() && address < std::prev(after)->end;
  }

 private:
  std::vector<MemoryRange> ranges_;
};

/// The communicator at an address that has the magic word, of whichever layout. Where its end was not written to, it is
/// none.
std::optional<NcclCommunicator> communicator_at(Memory& memory, uint64_t address, const RangeSet& written) {
  for (const CommLayout& layout : comm_layouts()) {
    auto found = written.contains(address + layout.end) ? communicator_of(memory, address, layout) : std::nullopt;
    if (found) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<NcclCommunicator> read_again(Memory& memory, const NcclCommunicator& known) {
  uint64_t word = 0;
  if (!read(memory, known.address, word) || word != kNcclMagic) {
    return std::nullopt;
  }
  const auto layout = std::ranges::find(comm_layouts(), known.bytes - sizeof word, &CommLayout::end);
  auto now = layout == comm_layouts().end() ? std::nullopt : communicator_of(memory, known.address, *layout);
  return now && now->hash == known.hash && now->rank == known.rank ? now : std::nullopt;
}

CommunicatorSearch find_communicators(Memory& memory, std::span<const MemoryRange> ranges, SearchBounds bounds) {
  CommunicatorSearch search;
  const int64_t begun_ns = monotonic_now_ns();
  // A process may fill its memory with the magic word: each one costs time.
  const auto is_over = [&] {
    search.whole = search.found.size() < kMostCommunicators && monotonic_now_ns() - begun_ns <= bounds.most_ns;
    return !search.whole;
  };
  std::vector<uint64_t> chunk(kChunkBytes / sizeof(uint64_t));
  uint64_t bytes = 0;
  const RangeSet written(ranges);
  for (const MemoryRange& range : ranges) {
    for (uint64_t at = range.begin; at < range.end; at += kChunkBytes) {
      if (bytes >= bounds.most_bytes) {
        search.whole = false;
        return search;
      }
      if (is_over()) {
        return search;
      }
      const size_t size = std::min<uint64_t>(kChunkBytes, range.end - at);
      bytes += size;
      const std::span<uint64_t> words = std::span(chunk).first(size / sizeof(uint64_t));
      if (!memory.read(at, std::as_writable_bytes(words))) {
        continue;
      }
      for (size_t i = 0; i < words.size(); i += kAlignment / sizeof(uint64_t)) {
        if (words[i] != kNcclMagic) {
          continue;
        }
        if (is_over()) {
          return search;
        }
        if (auto found = communicator_at(memory, at + i * sizeof(uint64_t), written)) {
          search.found.push_back(std::move(*found));
        }
      }
    }
  }
  return search;
}

}  // namespace stalltrace::stacks
