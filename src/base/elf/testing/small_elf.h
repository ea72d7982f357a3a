// SPDX-License-Identifier: Apache-2.0
// A small ELF file for tests to change and to damage.
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/elf/function_names.h"
#include "base/handle.h"

namespace stalltrace {

/// One executable segment and one symbol.
struct SmallElf {
  Elf64_Ehdr header{};
  Elf64_Phdr segment{};
  Elf64_Phdr note{};
  std::array<Elf64_Shdr, 2> sections{};
  Elf64_Sym symbol{};
  std::array<char, 400> strings{};
  struct {
    Elf64_Nhdr note{};
    std::array<char, 4> owner{'G', 'N', 'U', 0};
    std::array<unsigned char, 8> id{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
  } build;

  explicit SmallElf(const std::string& name) {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phentsize = sizeof segment;
    header.e_shentsize = sizeof sections[0];
    header.e_phoff = offsetof(SmallElf, segment);
    header.e_shoff = offsetof(SmallElf, sections);
    header.e_phnum = 1;
    header.e_shnum = 2;
    segment = {.p_type = PT_LOAD, .p_flags = PF_X, .p_offset = 0, .p_vaddr = 0x4000, .p_filesz = 0x1000};
    sections[0].sh_type = SHT_SYMTAB;
    sections[0].sh_offset = offsetof(SmallElf, symbol);
    sections[0].sh_size = sizeof symbol;
    sections[0].sh_entsize = sizeof symbol;
    sections[0].sh_link = 1;
    sections[1].sh_type = SHT_STRTAB;
    sections[1].sh_offset = offsetof(SmallElf, strings);
    sections[1].sh_size = sizeof strings;
    symbol = {.st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x4100, .st_size = 0x10};
    name.copy(strings.data(), strings.size());
  }

  void add_build_id() {
    header.e_phnum = 2;
    note = {.p_type = PT_NOTE, .p_offset = offsetof(SmallElf, build), .p_filesz = sizeof build};
    build.note = {.n_namesz = 4, .n_descsz = 8, .n_type = NT_GNU_BUILD_ID};
  }

  void write(const std::string& path, size_t bytes = 0) const {
    std::ofstream(path).write(reinterpret_cast<const char*>(this),
                              static_cast<std::streamsize>(bytes == 0 ? sizeof *this : bytes));
  }
  [[nodiscard]] UniqueFd open(size_t bytes = 0) const {
    const std::string path = testing::TempDir() + "/small.elf";
    write(path, bytes);
    UniqueFd fd(::open(path.c_str(), O_RDONLY));
    ::unlink(path.c_str());
    return fd;
  }
  [[nodiscard]] std::vector<std::optional<CodeLocation>> look(std::vector<uint64_t> offsets, size_t bytes = 0) const {
    return functions_at(open(bytes).get(), offsets);
  }
};

}  // namespace stalltrace
