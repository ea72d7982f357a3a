// SPDX-License-Identifier: Apache-2.0
// How to find the caller of a function: the rules that its file has in .eh_frame (DWARF call frame information), read
// from the process's own memory, which may be hostile. Only rules that need no more than known registers are used; all
// others are refused. x86-64; on other architectures there are no rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "stacks/memory/memory.h"

namespace stalltrace::stacks {

/// Registers by their DWARF numbers: 3 rbx, 6 rbp, 7 rsp, 12 to 15 r12 to r15, 16 the return address.
inline constexpr size_t kRegisters = 17;
inline constexpr size_t kBasePointer = 6;
inline constexpr size_t kStackPointer = 7;
inline constexpr size_t kReturnAddress = 16;

struct UnwindRules {
  enum class Kind : uint8_t { kSame, kSavedAt, kUnknown, kUndefined };
  struct Register {
    Kind kind = Kind::kSame;
    int64_t offset = 0;  // from the canonical frame address

    bool operator==(const Register&) const = default;
  };
  size_t base = kStackPointer;  // the canonical frame address is this register ...
  int64_t base_offset = 0;      // ... plus this
  bool base_known = false;      // it is no expression
  bool signal_frame = false;    // the frame was interrupted: its address is no return address
  std::array<Register, kRegisters> registers{};
};

/// The rules at addresses of one process. Borrows the memory.
class UnwindTables {
 public:
  explicit UnwindTables(BoundedMemory& memory) : memory_(memory) {}

  /// Instructions of the tables that are executed for one stack: an honest one takes some hundreds, but each entry may
  /// have thousands, in memory that is read once.
  static constexpr size_t kMostInstructions = 100'000;
  void begin_stack() { instructions_left_ = kMostInstructions; }

  /// At `address` of the ELF file whose first bytes are mapped at `elf`; nullopt where the file has none, or after
  /// kMostInstructions.
  std::optional<UnwindRules> at(uint64_t elf, uint64_t address);

 private:
  /// .eh_frame_hdr: a table sorted by address.
  struct Table {
    uint64_t header = 0;   // 0: none of the usual form
    uint64_t entries = 0;  // address of the first
    uint32_t count = 0;
  };
  const Table& table_of(uint64_t elf);
  Table read_table(uint64_t elf);
  std::optional<uint64_t> description_of(const Table& table, uint64_t address);

  BoundedMemory& memory_;
  std::map<uint64_t, Table> tables_;
  size_t instructions_left_ = kMostInstructions;
};

}  // namespace stalltrace::stacks
