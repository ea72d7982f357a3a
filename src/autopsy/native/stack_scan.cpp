// SPDX-License-Identifier: Apache-2.0
#include "autopsy/native/stack_scan.h"

#include <algorithm>
#include <cstring>

namespace stalltrace::autopsy {
namespace {

constexpr size_t kMostAddresses = 256;

std::optional<size_t> range_of(uint64_t address, std::span<const CodeRange> ranges) {
  const auto after = std::ranges::upper_bound(ranges, address, {}, &CodeRange::start);
  if (after == ranges.begin() || address >= std::prev(after)->end) {
    return std::nullopt;
  }
  return static_cast<size_t>(std::distance(ranges.begin(), std::prev(after)));
}

}  // namespace

bool is_call(std::span<const uint8_t> before) {
  const size_t size = before.size();
#if defined(__x86_64__)
  if (size < 8) {
    return false;
  }
  if (before[size - 5] == 0xe8) {  // call rel32
    return true;
  }
  // call r/m64 (FF /2), with 0 to 4 bytes of address besides opcode and ModRM
  for (const size_t length : {2U, 3U, 4U, 6U, 7U}) {
    if (before[size - length] == 0xff && ((before[size - length + 1] >> 3) & 7) == 2) {
      return true;
    }
  }
  return false;
#elif defined(__aarch64__)
  uint32_t instruction = 0;
  if (size < sizeof instruction) {
    return false;
  }
  std::memcpy(&instruction, before.data() + size - sizeof instruction, sizeof instruction);
  constexpr uint32_t kBl = 0x94000000;
  constexpr uint32_t kBlr = 0xd63f0000;
  return (instruction & 0xfc000000) == kBl || (instruction & 0xfffffc1f) == kBlr;
#else
  return size > 0;
#endif
}

ScannedStack scan_stack(const StackContent& stack, std::span<const CodeRange> ranges, const EndsCall& ends_call) {
  ScannedStack scanned;
  const auto take = [&](uint64_t address) {
    const auto range = range_of(address, ranges);
    if (!range) {
      return true;
    }
    const CodeKind kind = ranges[*range].kind;
    if (scanned.innermost == CodeKind::kTransparent) {
      scanned.innermost = kind;
    }
    scanned.code.push_back({address, *range});
    return kind != CodeKind::kProgram && scanned.code.size() < kMostAddresses;
  };
  if (!take(stack.ip)) {
    return scanned;
  }
  for (const uint64_t word : stack.words) {
    if (range_of(word - 1, ranges) && ends_call(word) && !take(word - 1)) {
      break;
    }
  }
  return scanned;
}

}  // namespace stalltrace::autopsy
