// SPDX-License-Identifier: Apache-2.0
// Code objects of a CPython process: names, and the source line of a position.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "stacks/memory/memory.h"
#include "stacks/python/layout.h"

namespace stalltrace::stacks {

struct CodeObject {
  std::string function;  // qualified ("Trainer.step") from 3.11 on
  std::string file;
  int32_t first_line = 0;
  std::vector<std::byte> line_table;

  bool operator==(const CodeObject&) const = default;
};

/// Text of a str object as UTF-8, at most `most_characters` of it. nullopt: not a compact str.
std::optional<std::string> read_text(BoundedMemory& memory, const Layout& layout, uint64_t object,
                                     size_t most_characters);

/// Reads each code object once. Borrows memory and layout.
class CodeObjects {
 public:
  /// `code_type` is the address of PyCode_Type; 0 unknown, then the type's name decides.
  CodeObjects(BoundedMemory& memory, const Layout& layout, uint64_t code_type)
      : memory_(memory), layout_(layout), code_type_(code_type) {}

  /// Whether the type of the object at the address is the code type.
  bool is_code(uint64_t address);
  /// Reads new code objects until two readings of each agree, a few times at most. Drops the memory's cached pages.
  void learn(std::span<const uint64_t> addresses);
  /// Null if it was not read, is no code object, or no two readings agreed. Valid until the next learn().
  [[nodiscard]] const CodeObject* at(uint64_t address) const;
  /// Offset in bytes from the first instruction, from 3.11 on; nullopt for an address outside.
  [[nodiscard]] std::optional<int64_t> offset_in(uint64_t code, uint64_t instruction) const;
  /// From 3.11 on: a call whose frame is still being set up, which Python's own tracebacks leave out.
  bool before_first_traceable(uint64_t code, int64_t offset);

 private:
  std::optional<CodeObject> read(uint64_t address);

  BoundedMemory& memory_;
  const Layout& layout_;
  uint64_t code_type_;
  std::unordered_map<uint64_t, CodeObject> known_;
  size_t table_bytes_ = 0;
};

}  // namespace stalltrace::stacks
