// SPDX-License-Identifier: Apache-2.0
#include "base/elf/function_names.h"

#include <cxxabi.h>
#include <string.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/elf/elf_file.h"
#include "base/handle.h"

namespace stalltrace {
namespace {

constexpr size_t kLongestName = 160;  // bytes kept; a long C++ name is mostly template arguments
constexpr size_t kLongestSymbol = 300;

/// An address to look up, and the innermost function found so far that covers it.
struct Wanted {
  std::optional<uint64_t> address;  // as in the symbol table
  uint64_t begin = 0;
  uint64_t name_at = 0;  // in the file
  bool found = false;
};

/// True if demangling stays short: each back reference ("S_", "T1_") may double the length of the result.
bool is_short_work(const std::string& symbol) {
  constexpr int kMostReferences = 10;
  int references = 0;
  for (size_t i = 0; i + 1 < symbol.size(); ++i) {
    if (symbol[i] != 'S' && symbol[i] != 'T') {
      continue;
    }
    size_t next = i + 1;
    while (next < symbol.size() && (std::isdigit(static_cast<unsigned char>(symbol[next])) != 0 ||
                                    std::isupper(static_cast<unsigned char>(symbol[next])) != 0)) {
      ++next;
    }
    references += next < symbol.size() && symbol[next] == '_' ? 1 : 0;
  }
  return symbol.size() + 1 < kLongestSymbol && references <= kMostReferences;
}

/// A readable form of a name from an untrusted file: demangled, without control characters, of limited length.
std::string readable(const std::string& symbol) {
  std::string name = symbol;
  if (symbol.starts_with("_Z") && is_short_work(symbol)) {
    int status = 0;
    const std::unique_ptr<char, Free<std::free>> demangled(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status));
    name = status == 0 && demangled ? std::string(demangled.get(), strnlen(demangled.get(), 2 * kLongestName)) : symbol;
  }
  if (name.size() > kLongestName) {
    name = name.substr(0, kLongestName) + "...";
  }
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  return name;
}

std::vector<std::optional<CodeLocation>> functions_covering(const ElfFile& file, std::vector<Wanted> wanted,
                                                            int64_t until_ns) {
  const auto take = [&](const Elf64_Sym& symbol, uint64_t name_at) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) {
      return;
    }
    for (Wanted& one : wanted) {
      const bool covers =
          one.address && symbol.st_value <= *one.address && *one.address - symbol.st_value < symbol.st_size;
      if (covers && (!one.found || symbol.st_value > one.begin)) {
        one = {one.address, symbol.st_value, name_at, true};
      }
    }
  };
  std::vector<std::optional<CodeLocation>> locations(wanted.size());
  if (!file.each_symbol(take, until_ns)) {
    return locations;  // a later symbol may be more exact
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].found) {
      locations[i] = CodeLocation{readable(file.text_at(wanted[i].name_at, kLongestSymbol - 1)),
                                  *wanted[i].address - wanted[i].begin};
    }
  }
  return locations;
}

}  // namespace

std::vector<std::optional<CodeLocation>> functions_at(int fd, std::span<const uint64_t> file_offsets,
                                                      int64_t until_ns) {
  const std::optional<ElfFile> file = ElfFile::open(fd);
  std::vector<Wanted> wanted(file_offsets.size());
  for (size_t i = 0; file && i < wanted.size(); ++i) {
    wanted[i].address = file->code_address(file_offsets[i]);
  }
  return file ? functions_covering(*file, std::move(wanted), until_ns)
              : std::vector<std::optional<CodeLocation>>(file_offsets.size());
}

std::vector<std::optional<CodeLocation>> functions_at_addresses(int fd, std::span<const uint64_t> addresses,
                                                                int64_t until_ns) {
  const std::optional<ElfFile> file = ElfFile::open(fd);
  std::vector<Wanted> wanted(addresses.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i].address = addresses[i] != 0 ? std::optional(addresses[i]) : std::nullopt;
  }
  return file ? functions_covering(*file, std::move(wanted), until_ns)
              : std::vector<std::optional<CodeLocation>>(addresses.size());
}

CodeAddresses code_addresses(int fd, std::span<const uint64_t> file_offsets) {
  const std::optional<ElfFile> file = ElfFile::open(fd);
  CodeAddresses code{.build_id = file ? file->build_id() : "", .addresses = std::vector<uint64_t>(file_offsets.size())};
  for (size_t i = 0; file && i < file_offsets.size(); ++i) {
    code.addresses[i] = file->code_address(file_offsets[i]).value_or(0);
  }
  return code;
}

}  // namespace stalltrace
