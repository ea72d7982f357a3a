// SPDX-License-Identifier: Apache-2.0
#include "autopsy/native/stack_scan.h"

#include <algorithm>
#include <iterator>
#include <optional>

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

ScannedStack scan_stack(const stacks::StackContent& stack, std::span<const CodeRange> ranges,
                        const EndsCall& ends_call) {
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
