// SPDX-License-Identifier: Apache-2.0
// Symbols, sections and segments of an ELF file that may be anybody's: every byte is doubted. The file is read in small
// pieces, never mapped (a file that is cut in the meantime would end this program), within bounds on what it claims to
// hold: sections, segments, symbols, bytes of names. 64 bits, little-endian. One thread.
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
  /// Borrows the descriptor. None: not such a file, or cut off.
  static std::optional<ElfFile> open(int fd);

  /// The address, as symbols have it, of a place in a segment that is executed; none outside of all.
  [[nodiscard]] std::optional<uint64_t> code_address(uint64_t file_offset) const;
  /// What the loader added to the addresses that symbols have (modulo 2^64), by an executable mapping of the file; none
  /// for a mapping of no segment.
  [[nodiscard]] std::optional<uint64_t> load_bias(uint64_t start, uint64_t end, uint64_t file_offset) const;
  /// Values of the defined symbols of these names, in their order: of the dynamic table, else of the full one.
  [[nodiscard]] std::vector<std::optional<uint64_t>> symbol_values(std::span<const std::string_view> names) const;
  /// Where a section is loaded; none for one that isn't, or is not there.
  [[nodiscard]] std::optional<uint64_t> section_address(std::string_view name) const;
  /// Every defined symbol with the place of its name in the file, first those of the dynamic table; at most a million
  /// of each.
  void each_symbol(const std::function<void(const Elf64_Sym& symbol, uint64_t name_at)>& take) const;
  /// Defined symbols of a table (SHT_DYNSYM, SHT_SYMTAB) with their names, if the table's text has any of `needles`.
  void each_name(uint32_t type, std::span<const std::string_view> needles,
                 const std::function<void(const Elf64_Sym& symbol, std::string_view name)>& take) const;
  /// The place in the file of so many bytes at an address, in a loaded segment that has all of `flags` (PF_X, ...);
  /// none where no segment has them whole, nor where the file ends before them.
  [[nodiscard]] std::optional<uint64_t> file_offset(uint64_t address, uint64_t bytes, uint32_t flags) const;
  [[nodiscard]] std::optional<Elf64_Phdr> first_code_segment() const;
  /// Whether the file is for processors such as this.
  [[nodiscard]] bool is_of_this_machine() const;
  [[nodiscard]] bool read(uint64_t offset, std::span<std::byte> into) const;
  /// The zero-terminated text at a place in the file, at most `limit` bytes of it; empty where there is none.
  [[nodiscard]] std::string text_at(uint64_t offset, size_t limit) const;

 private:
  explicit ElfFile(int fd) : fd_(fd) {}
  /// `take` gets a symbol, and where the table of names begins in the file.
  void walk(uint32_t type, const std::function<void(const Elf64_Sym& symbol, const Elf64_Shdr& strings)>& take) const;
  /// A table of names, whole; empty where it is too large, or has none of `needles`.
  [[nodiscard]] std::string names_of(const Elf64_Shdr& strings, std::span<const std::string_view> needles) const;

  int fd_;
  uint64_t size_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace stalltrace
