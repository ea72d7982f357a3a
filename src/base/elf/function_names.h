// SPDX-License-Identifier: Apache-2.0
// Names of the functions that code belongs to, by the symbol tables of its file, dynamic and full.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stalltrace {

/// A function and how far into it an address lies.
struct CodePlace {
  std::string function;  // demangled where that is short work; printable
  uint64_t into = 0;     // bytes
};

/// The functions of an open ELF file of this machine's kind at these offsets in it, one result for each; nothing where
/// no symbol with a size covers it, nor for a file that is none. Of nested symbols the innermost. A pass over all of
/// the file's symbols, whatever the number of offsets.
std::vector<std::optional<CodePlace>> functions_at(int fd, std::span<const uint64_t> file_offsets);

}  // namespace stalltrace
