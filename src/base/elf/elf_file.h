// SPDX-License-Identifier: Apache-2.0
// Symbols, sections and segments of an untrusted ELF file. The file is read in small pieces and never mapped
// (truncation of a mapped file would end this program), with limits on its sections, segments, symbols and bytes of
// names. 64 bits, little-endian. One thread.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace {

class ElfFile {
 public:
  /// Borrows the descriptor. nullopt: not such a file, or truncated.
  static std::optional<ElfFile> open(int fd);

  /// The virtual address, as in the symbol table, of an offset in an executable segment; nullopt outside of all.
  [[nodiscard]] std::optional<uint64_t> code_address(uint64_t file_offset) const;
  /// The loader's offset to the addresses in the symbol table (modulo 2^64), from an executable mapping of the file;
  /// nullopt for a mapping of no segment.
  [[nodiscard]] std::optional<uint64_t> load_bias(uint64_t start, uint64_t end, uint64_t file_offset) const;
  /// Values of the defined symbols with these names, in the same order: from the dynamic table, else from the full one.
  [[nodiscard]] std::vector<std::optional<uint64_t>> symbol_values(std::span<const std::string_view> names) const;
  /// The address of a loaded section; nullopt if it is missing or not loaded.
  [[nodiscard]] std::optional<uint64_t> section_address(std::string_view name) const;
  /// Every defined symbol with its name's offset in the file, the dynamic table first; at most a million of each. False
  /// if CLOCK_MONOTONIC passed `until_ns` before the last.
  bool each_symbol(const std::function<void(const Elf64_Sym& symbol, uint64_t name_at)>& take,
                   int64_t until_ns = INT64_MAX) const;
  /// Defined symbols of a table (SHT_DYNSYM, SHT_SYMTAB) with their names, if the table's text contains any of
  /// `needles`.
  void each_name(uint32_t type, std::span<const std::string_view> needles,
                 const std::function<void(const Elf64_Sym& symbol, std::string_view name)>& take) const;
  /// The file offset of `bytes` bytes at an address, in a loaded segment that has all of `flags` (PF_X, ...); nullopt
  /// where no segment, or not the file, contains all of them.
  [[nodiscard]] std::optional<uint64_t> file_offset(uint64_t address, uint64_t bytes, uint32_t flags) const;
  [[nodiscard]] std::optional<Elf64_Phdr> first_code_segment() const;
  /// The linker's number of the build, in hexadecimal ("7cda71..."); empty where there is none.
  [[nodiscard]] std::string build_id() const;
  /// Whether the file is for this machine's architecture.
  [[nodiscard]] bool is_of_this_machine() const;
  [[nodiscard]] bool read(uint64_t offset, std::span<std::byte> into) const;
  /// The zero-terminated text at an offset, at most `limit` bytes of it; empty where there is none.
  [[nodiscard]] std::string text_at(uint64_t offset, size_t limit) const;

 private:
  explicit ElfFile(int fd) : fd_(fd) {}
  /// `take` gets a symbol and the name table. False if the time was not enough.
  bool walk(uint32_t type, const std::function<void(const Elf64_Sym& symbol, const Elf64_Shdr& strings)>& take,
            int64_t until_ns = INT64_MAX) const;
  /// A whole name table; empty if it is too large or contains none of `needles`.
  [[nodiscard]] std::string names_of(const Elf64_Shdr& strings, std::span<const std::string_view> needles) const;

  int fd_;
  uint64_t size_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace stalltrace
