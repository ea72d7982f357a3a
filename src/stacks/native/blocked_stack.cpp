// SPDX-License-Identifier: Apache-2.0
#include "stacks/native/blocked_stack.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/text.h"

namespace stalltrace::stacks {
namespace {

constexpr size_t kStackBytes = 32U << 10;
constexpr size_t kPageBytes = 4096;  // read at once

std::optional<uint64_t> hexadecimal(std::string_view word) {
  uint64_t value = 0;
  if (!word.starts_with("0x")) {
    return std::nullopt;
  }
  const auto [end, code] = std::from_chars(word.data() + 2, word.data() + word.size(), value, 16);
  return code == std::errc{} && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<UserRegisters> parse_registers(std::string_view syscall_line) {
  const auto words = split(trim(syscall_line), ' ');
  if (words.size() < 3) {
    return std::nullopt;
  }
  const auto sp = hexadecimal(words[words.size() - 2]);
  const auto ip = hexadecimal(words.back());
  return sp && ip && *sp != 0 ? std::optional(UserRegisters{*sp, *ip}) : std::nullopt;
}

std::optional<StackContent> blocked_stack(const Procfs& procfs, Memory& memory, pid_t pid, pid_t tid) {
  const auto registers = parse_registers(procfs.thread_file(pid, tid, "syscall"));
  if (!registers) {
    return std::nullopt;
  }
  StackContent content{.ip = registers->ip, .words = {}};
  std::array<uint64_t, kPageBytes / sizeof(uint64_t)> page{};
  uint64_t address = registers->sp & ~uint64_t{7};
  const uint64_t end = address + kStackBytes;
  while (address < end) {
    const uint64_t until = std::min(end, (address / kPageBytes + 1) * kPageBytes);
    const auto part = std::span(page).first((until - address) / sizeof(uint64_t));
    if (!memory.read(address, std::as_writable_bytes(part))) {
      break;
    }
    content.words.insert(content.words.end(), part.begin(), part.end());
    address = until;
  }
  return content.words.empty() ? std::nullopt : std::optional(std::move(content));
}

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

}  // namespace stalltrace::stacks
