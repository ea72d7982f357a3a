// SPDX-License-Identifier: Apache-2.0
#include "stacks/nccl/find_communicators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "stacks/memory/memory.h"
#include "stacks/nccl/comm_layout.h"
#include "stacks/nccl/written_memory.h"

namespace stalltrace::stacks {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr uint64_t kBase = 0x7f0000000000;
constexpr uint64_t kPage = 4096;

/// Memory at kBase; `hole` cannot be read.
class FakeMemory final : public Memory {
 public:
  explicit FakeMemory(size_t bytes) : bytes_(bytes) {}

  bool read(uint64_t address, std::span<std::byte> into) override {
    if (address < kBase || address + into.size() > kBase + bytes_.size() ||
        (address < hole.end && address + into.size() > hole.begin)) {
      return false;
    }
    std::memcpy(into.data(), bytes_.data() + (address - kBase), into.size());
    read_bytes += into.size();
    return true;
  }
  template <typename T>
  void put(uint64_t address, T value) {
    std::memcpy(bytes_.data() + (address - kBase), &value, sizeof(value));
  }
  [[nodiscard]] MemoryRange all() const { return {kBase, kBase + bytes_.size()}; }

  MemoryRange hole;
  uint64_t read_bytes = 0;

 private:
  std::vector<std::byte> bytes_;
};

/// As NCCL writes it: rank 2 of 4 on device 1, with 10 launches of the first operation, 11 of the second ...
void put_communicator(FakeMemory& memory, uint64_t address, const CommLayout& layout) {
  memory.put(address, kNcclMagic);
  memory.put(address + layout.end, kNcclMagic);
  memory.put(address + layout.identity, uint64_t{0xabc});
  memory.put(address + layout.identity + 8, int32_t{2});
  memory.put(address + layout.identity + 12, int32_t{4});
  memory.put(address + layout.identity + 16, int32_t{1});
  for (uint64_t i = 0; layout.counted != CommCounters::kNone && i < kCountedOperations.size(); ++i) {
    memory.put(address + layout.counters + 8 * i, 10 + i);
  }
}

CommunicatorSearch search(FakeMemory& memory, SearchBounds bounds = {}) {
  const std::vector<MemoryRange> ranges{memory.all()};
  return find_communicators(memory, ranges, bounds);
}

const CommLayout& layout_of(std::string_view version) {
  return *std::ranges::find(comm_layouts(), version, &CommLayout::versions);
}

constexpr size_t kEnough = size_t{4} << 20;

TEST(FindCommunicators, EveryLayoutIsKnownByItsEnd) {
  for (const CommLayout& layout : comm_layouts()) {
    FakeMemory memory(kEnough);
    const uint64_t address = kBase + 3 * kPage + 16;
    put_communicator(memory, address, layout);
    const CommunicatorSearch all = search(memory);
    EXPECT_TRUE(all.whole);
    ASSERT_EQ(all.found.size(), 1U) << layout.versions;
    const NcclCommunicator& found = all.found[0];
    EXPECT_EQ(found.address, address);
    EXPECT_EQ(found.hash, 0xabcU);
    EXPECT_EQ(found.rank, 2);
    EXPECT_EQ(found.nranks, 4);
    EXPECT_EQ(found.device, 1);
    EXPECT_EQ(found.bytes, layout.end + 8);
    EXPECT_EQ(read_again(memory, found), found);
    memory.put(address, uint64_t{0});
    EXPECT_EQ(read_again(memory, found), std::nullopt);
    switch (layout.counted) {
      case CommCounters::kNone:
        EXPECT_THAT(found.launched, IsEmpty());
        break;
      case CommCounters::kCollectives:
        EXPECT_THAT(found.launched, ElementsAre(Pair("Collective", 10)));
        break;
      case CommCounters::kOperations:
        EXPECT_THAT(found.launched, ElementsAre(Pair("Broadcast", 10), Pair("Reduce", 11), Pair("AllGather", 12),
                                                Pair("ReduceScatter", 13), Pair("AllReduce", 14)));
    }
  }
}

TEST(FindCommunicators, WhatIsNotOneIsNotFound) {
  const CommLayout& layout = layout_of("2.28.7 to 2.28.9");
  const uint64_t address = kBase + 16;
  const auto found_with = [&](const auto& change) {
    FakeMemory memory(kEnough);
    put_communicator(memory, address, layout);
    change(memory);
    return !search(memory).found.empty();
  };
  const auto put = [&](uint64_t offset, auto value) {
    return [=](FakeMemory& memory) { memory.put(address + offset, value); };
  };
  EXPECT_TRUE(found_with([](FakeMemory&) {}));
  EXPECT_FALSE(found_with(put(0, uint64_t{0}))) << "freed";
  EXPECT_FALSE(found_with(put(layout.end, uint64_t{0})));
  EXPECT_FALSE(found_with(put(layout.identity, uint64_t{0}))) << "no hash: it is being set up";
  EXPECT_FALSE(found_with(put(layout.identity + 8, int32_t{4}))) << "rank 4 of 4";
  EXPECT_FALSE(found_with(put(layout.identity + 8, int32_t{-1})));
  EXPECT_FALSE(found_with(put(layout.identity + 12, kMostRanks + 1)));
  EXPECT_FALSE(found_with(put(layout.identity + 16, int32_t{-1})));
  EXPECT_FALSE(found_with(put(layout.counters + 8, uint64_t{1} << 50)));
}

TEST(FindCommunicators, OneInTwoPartsOfTheSearchIsFoundOnce) {
  const CommLayout& layout = layout_of("2.28.7 to 2.28.9");
  FakeMemory memory(kEnough);
  constexpr uint64_t kBetween = kBase + (uint64_t{1} << 20);
  put_communicator(memory, kBetween - 16, layout);
  const std::vector<MemoryRange> parts{{kBase, kBetween}, {kBetween, memory.all().end}};
  EXPECT_EQ(find_communicators(memory, parts).found.size(), 1U);
  EXPECT_EQ(search(memory).found.size(), 1U);
}

TEST(FindCommunicators, WhatCannotBeReadIsSkipped) {
  const CommLayout& layout = layout_of("2.21.5");
  FakeMemory memory(kEnough);
  put_communicator(memory, kBase + (uint64_t{3} << 20), layout);
  memory.hole = {kBase + kPage, kBase + 2 * kPage};
  EXPECT_EQ(search(memory).found.size(), 1U);
  memory.hole = {kBase + (uint64_t{3} << 20) + layout.end, memory.all().end};
  EXPECT_THAT(search(memory).found, IsEmpty());
}

TEST(FindCommunicators, TheSearchIsBounded) {
  FakeMemory memory(kEnough);
  const CommunicatorSearch bounded = search(memory, {.most_bytes = uint64_t{2} << 20, .most_ns = kNsPerSecond});
  EXPECT_FALSE(bounded.whole);
  EXPECT_EQ(memory.read_bytes, uint64_t{2} << 20);
  EXPECT_FALSE(search(memory, {.most_bytes = kEnough, .most_ns = -1}).whole);
}

/// As a process could fill its memory. They overlap, and all are possible.
TEST(FindCommunicators, NoMoreAreFoundThanAProcessHas) {
  const CommLayout& layout = layout_of("2.21.5");
  FakeMemory memory(kEnough);
  constexpr uint64_t kApart = 64;
  for (const bool ends : {false, true}) {
    for (uint64_t i = 0; i < kMostCommunicators + 100; ++i) {
      const uint64_t address = kBase + i * kApart;
      if (!ends) {
        put_communicator(memory, address, layout);
      }
      memory.put(address + layout.end, kNcclMagic);
    }
  }
  const CommunicatorSearch all = search(memory);
  EXPECT_EQ(all.found.size(), kMostCommunicators);
  EXPECT_FALSE(all.whole);
}

/// Pages of this process's own mapping that are in RAM.
size_t resident(std::byte* memory, size_t bytes) {
  const auto written = written_memory(Procfs(), ::getpid());
  EXPECT_TRUE(written) << written.error().what;
  const auto begin = reinterpret_cast<uint64_t>(memory);
  size_t pages = 0;
  for (const MemoryRange& range : written->ranges) {
    const uint64_t from = std::max(range.begin, begin);
    const uint64_t to = std::min(range.end, begin + bytes);
    pages += to > from ? (to - from) / kPage : 0;
  }
  return pages;
}

TEST(WrittenMemory, OnlyWhatAProcessWroteToIsSearchedAndNothingChanges) {
  constexpr size_t kBytes = size_t{256} << 20;
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ASSERT_EQ(::madvise(mapped, kBytes, MADV_NOHUGEPAGE), 0);
  auto* memory = static_cast<std::byte*>(mapped);
  EXPECT_EQ(resident(memory, kBytes), 0U);
  const CommLayout& layout = layout_of("2.28.7 to 2.28.9");
  constexpr size_t kAt = (size_t{100} << 20) + 16;
  FakeMemory image(kEnough);
  put_communicator(image, kBase, layout);
  std::vector<std::byte> content(layout.end + 8);
  ASSERT_TRUE(image.read(kBase, content));
  for (size_t i = 0; i < content.size(); ++i) {
    if (content[i] != std::byte{0}) {
      memory[kAt + i] = content[i];
    }
  }
  const size_t written_pages = resident(memory, kBytes);
  EXPECT_GE(written_pages, 3U);
  EXPECT_LE(written_pages, 6U);
  auto own = ProcessMemory::open(Procfs(), ::getpid());
  ASSERT_TRUE(own) << own.error().what;
  const auto written = written_memory(Procfs(), ::getpid());
  ASSERT_TRUE(written) << written.error().what;
  EXPECT_TRUE(written->whole);
  const CommunicatorSearch all = find_communicators(*own, written->ranges, {.most_ns = 60 * kNsPerSecond});
  const auto found = std::ranges::find(all.found, reinterpret_cast<uint64_t>(memory) + kAt, &NcclCommunicator::address);
  ASSERT_NE(found, all.found.end());
  EXPECT_EQ(found->rank, 2);
  EXPECT_LE(resident(memory, kBytes), written_pages + 1) << "the search made pages";
  const auto few = written_memory(Procfs(), ::getpid(), {.most_bytes = kPage, .most_ns = 60 * kNsPerSecond});
  ASSERT_TRUE(few) << few.error().what;
  EXPECT_FALSE(few->whole);
  EXPECT_LT(few->ranges.size(), written->ranges.size());
  const auto none = written_memory(Procfs(), ::getpid(), {.most_ns = -1});
  ASSERT_TRUE(none) << none.error().what;
  EXPECT_FALSE(none->whole);
  EXPECT_THAT(none->ranges, IsEmpty());
  ::munmap(mapped, kBytes);
}

}  // namespace
}  // namespace stalltrace::stacks
