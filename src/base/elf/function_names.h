// SPDX-License-Identifier: Apache-2.0
// Names of the functions at code addresses, from the file's dynamic and full symbol tables.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stalltrace {

/// A function and how far into it an address lies.
struct CodeLocation {
  std::string function;  // demangled where that stays short; printable
  uint64_t into = 0;     // bytes from its start
};

/// The functions at these offsets of an open ELF file for this machine, one result each; nullopt where no symbol with a
/// size covers the offset, or if it is not such a file. The innermost of nested symbols. Takes one pass over all of the
/// file's symbols, whatever the number of offsets; if CLOCK_MONOTONIC passes `until_ns` before its end, all are
/// nullopt.
std::vector<std::optional<CodeLocation>> functions_at(int fd, std::span<const uint64_t> file_offsets,
                                                      int64_t until_ns = INT64_MAX);

/// The same in a file of symbols alone, at addresses as in the symbol table.
std::vector<std::optional<CodeLocation>> functions_at_addresses(int fd, std::span<const uint64_t> addresses,
                                                                int64_t until_ns = INT64_MAX);

/// By what the symbols of a stripped file are found in another one.
struct CodeAddresses {
  std::string build_id;             // in hexadecimal; empty: the file has none
  std::vector<uint64_t> addresses;  // of each offset, as in the symbol table; 0: in no code
};
CodeAddresses code_addresses(int fd, std::span<const uint64_t> file_offsets);

}  // namespace stalltrace
