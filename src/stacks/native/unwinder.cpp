// SPDX-License-Identifier: Apache-2.0
#include "stacks/native/unwinder.h"

#include <array>
#include <optional>
#include <span>

namespace stalltrace::stacks {
namespace {

constexpr uint64_t kLargestFrame = 16U << 20;

/// What is known of a frame's registers.
struct Frame {
  uint64_t ip = 0;
  uint64_t sp = 0;
  std::array<std::optional<uint64_t>, kRegisters> saved{};  // those that a function keeps for its caller
  bool is_return = false;                                   // `ip` follows a call
};

bool is_callee_saved(size_t number) { return number == 3 || number == kBasePointer || (number >= 12 && number <= 15); }

std::optional<uint64_t> word_at(BoundedMemory& stack, uint64_t address) {
  uint64_t word = 0;
  return stack.read(address, word) ? std::optional(word) : std::nullopt;
}

/// A frame's caller; `ended`: it has none.
struct Caller {
  std::optional<Frame> frame;
  bool ended = false;
};

/// The caller whose return address lies just below `above`.
Caller returned_to(Frame frame, uint64_t above, std::optional<uint64_t> address) {
  if (!address || above <= frame.sp || above - frame.sp > kLargestFrame) {
    return {};
  }
  if (*address == 0) {
    return {.frame = std::nullopt, .ended = true};
  }
  frame.sp = above;
  frame.ip = *address;
  frame.is_return = true;
  return {.frame = frame};
}

Caller by_rules(BoundedMemory& stack, const Frame& frame, const UnwindRules& rules) {
  using Kind = UnwindRules::Kind;
  const UnwindRules::Register& at = rules.registers[kReturnAddress];
  if (at.kind == Kind::kUndefined) {
    return {.frame = std::nullopt, .ended = true};
  }
  const std::optional<uint64_t> base = rules.base == kStackPointer ? frame.sp : frame.saved[rules.base];
  if (!rules.base_known || rules.signal_frame || !base || at.kind != Kind::kSavedAt) {
    return {};
  }
  const uint64_t above = *base + static_cast<uint64_t>(rules.base_offset);
  Frame caller = frame;
  for (size_t i = 0; i < kRegisters; ++i) {
    const UnwindRules::Register& rule = rules.registers[i];
    if (is_callee_saved(i) && rule.kind != Kind::kSame) {
      caller.saved[i] =
          rule.kind == Kind::kSavedAt ? word_at(stack, above + static_cast<uint64_t>(rule.offset)) : std::nullopt;
    }
  }
  return returned_to(caller, above, word_at(stack, above + static_cast<uint64_t>(at.offset)));
}

/// Where the code returns at once, its instructions show the caller: those of a trampoline without tables, as CPython
/// and other makers of code have it.
Caller by_instructions(BoundedMemory& stack, BoundedMemory& code, Frame frame) {
#if defined(__x86_64__)
  constexpr int kMostInstructions = 8;
  uint64_t sp = frame.sp;
  uint64_t ip = frame.ip;
  const auto byte_at = [&](uint64_t address) {
    uint8_t byte = 0;
    return code.read(address, byte) ? std::optional(byte) : std::nullopt;
  };
  for (int i = 0; i < kMostInstructions; ++i) {
    const auto first = byte_at(ip);
    const auto second = byte_at(ip + 1);
    if (first == 0xc3) {  // ret
      return returned_to(frame, sp + sizeof(uint64_t), word_at(stack, sp));
    }
    const bool extended = first == 0x41;
    const auto pop = extended ? second : first;
    if (pop >= 0x58 && pop <= 0x5f && (extended || pop != 0x5c)) {  // pop, not of the stack pointer
      constexpr size_t kFirstExtended = 8;
      constexpr std::array<size_t, 8> kDwarf{0, 2, 1, 3, kStackPointer, kBasePointer, 4, 5};
      const size_t number = *pop - 0x58U;
      frame.saved[extended ? kFirstExtended + number : kDwarf[number]] = word_at(stack, sp);
      sp += sizeof(uint64_t);
      ip += extended ? 2 : 1;
    } else if (first == 0x48 && second == 0x83 && byte_at(ip + 2) == 0xc4) {  // add $imm8,%rsp
      const auto amount = byte_at(ip + 3);
      if (!amount || *amount > 0x7f) {
        return {};
      }
      sp += *amount;
      ip += 4;
    } else {
      return {};
    }
  }
#else
  (void)stack;
  (void)code;
  (void)frame;
#endif
  return {};
}

/// What a return address must look like.
bool follows_a_call(BoundedMemory& code, uint64_t address) {
  std::array<uint8_t, kCallBytes> before{};
  return address > before.size() && code.read(address - before.size(), std::as_writable_bytes(std::span(before))) &&
         is_call(before);
}

}  // namespace

Unwound unwind(const UserRegisters& registers, const CodeMap& map, BoundedMemory& stack, BoundedMemory& code,
               UnwindTables& tables) {
  tables.begin_stack();
  Unwound unwound;
  Frame frame{.ip = registers.ip, .sp = registers.sp};
  while (unwound.frames.size() < kMostNativeFrames) {
    const uint64_t address = frame.is_return ? frame.ip - 1 : frame.ip;
    const CodeRegion* region = map.at(address);
    if (region == nullptr || (frame.is_return && !follows_a_call(code, frame.ip))) {
      return unwound;
    }
    unwound.frames.push_back({address, region});
    const auto rules = region->elf != 0 ? tables.at(region->elf, address) : std::nullopt;
    const Caller caller = rules ? by_rules(stack, frame, *rules) : by_instructions(stack, code, frame);
    if (!caller.frame) {
      unwound.whole = caller.ended;
      return unwound;
    }
    frame = *caller.frame;
  }
  return unwound;
}

}  // namespace stalltrace::stacks
