// SPDX-License-Identifier: Apache-2.0
#include "base/elf/elf_file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/clock.h"
#include "base/read_at.h"

namespace stalltrace {
namespace {

constexpr uint64_t kMostSections = 512;
constexpr uint64_t kMostSegments = 256;
constexpr uint64_t kMostSymbols = 1'000'000;  // per table; libtorch_cpu.so has 200,000
constexpr size_t kSymbolsAtOnce = 2048;
constexpr uint64_t kMostNameBytes = 64U << 20;  // per searched string table; libtorch_cpu.so has 40 MiB
constexpr size_t kPieceBytes = 1U << 20;

#if defined(__x86_64__)
constexpr uint16_t kThisMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kThisMachine = EM_AARCH64;
#endif

template <typename T>
bool read_whole(int fd, uint64_t offset, std::span<T> into) {
  return offset <= static_cast<uint64_t>(INT64_MAX) &&
         read_at(fd, into.data(), into.size_bytes(), static_cast<off_t>(offset)) ==
             static_cast<ssize_t>(into.size_bytes());
}

}  // namespace

std::optional<ElfFile> ElfFile::open(int fd) {
  ElfFile file(fd);
  const Elf64_Ehdr& header = file.header_;
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !read_whole(fd, 0, std::span(&file.header_, 1)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_phentsize != sizeof(Elf64_Phdr) ||
      (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr))) {
    return std::nullopt;
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  file.segments_.resize(std::min<uint64_t>(header.e_phnum, kMostSegments));
  file.sections_.resize(std::min<uint64_t>(header.e_shnum, kMostSections));
  if (!read_whole(fd, header.e_phoff, std::span(file.segments_)) ||
      !read_whole(fd, header.e_shoff, std::span(file.sections_))) {
    return std::nullopt;
  }
  return file;
}

std::optional<uint64_t> ElfFile::code_address(uint64_t file_offset) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && file_offset >= segment.p_offset &&
        file_offset - segment.p_offset < segment.p_filesz) {
      return file_offset - segment.p_offset + segment.p_vaddr;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> ElfFile::load_bias(uint64_t start, uint64_t end, uint64_t file_offset) const {
  for (const Elf64_Phdr& segment : segments_) {
    // A mapping consists of whole pages: it may begin before its segment, by less than one page of whatever size.
    const bool overlaps =
        segment.p_offset < file_offset + (end - start) && file_offset < segment.p_offset + segment.p_filesz;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && overlaps) {
      return start - file_offset + segment.p_offset - segment.p_vaddr;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> ElfFile::file_offset(uint64_t address, uint64_t bytes, uint32_t flags) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & flags) != flags || address < segment.p_vaddr) {
      continue;
    }
    const uint64_t into = address - segment.p_vaddr;
    if (into < segment.p_filesz && bytes <= segment.p_filesz - into && segment.p_offset <= size_ &&
        into <= size_ - segment.p_offset && bytes <= size_ - segment.p_offset - into) {
      return segment.p_offset + into;
    }
  }
  return std::nullopt;
}

std::optional<Elf64_Phdr> ElfFile::first_code_segment() const {
  const auto found = std::ranges::find_if(
      segments_, [](const Elf64_Phdr& segment) { return segment.p_type == PT_LOAD && (segment.p_flags & PF_X); });
  return found == segments_.end() ? std::nullopt : std::optional(*found);
}

std::string ElfFile::build_id() const {
  constexpr uint64_t kMostNotes = 64 << 10;  // bytes
  constexpr uint32_t kLongestId = 64;
  constexpr std::string_view kOwner{"GNU\0", 4};
  const auto aligned = [](uint64_t bytes) { return (bytes + 3) & ~uint64_t{3}; };
  for (const Elf64_Phdr& segment : segments_) {
    const uint64_t size = segment.p_type == PT_NOTE ? std::min(segment.p_filesz, kMostNotes) : 0;
    for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
      Elf64_Nhdr note{};
      std::array<char, kOwner.size()> owner{};
      if (!read_whole(fd_, segment.p_offset + at, std::span(&note, 1))) {
        break;
      }
      const uint64_t name_at = segment.p_offset + at + sizeof note;
      const uint64_t id_at = name_at + aligned(note.n_namesz);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == owner.size() && note.n_descsz > 0 &&
          note.n_descsz <= kLongestId && read_whole(fd_, name_at, std::span<char>(owner)) &&
          std::string_view(owner.data(), owner.size()) == kOwner) {
        std::vector<unsigned char> bytes(note.n_descsz);
        if (!read_whole(fd_, id_at, std::span(bytes))) {
          break;
        }
        std::string id;
        for (const unsigned char byte : bytes) {
          constexpr std::string_view kDigits = "0123456789abcdef";
          id += kDigits[byte >> 4U];
          id += kDigits[byte & 15U];
        }
        return id;
      }
      at += sizeof note + aligned(note.n_namesz) + aligned(note.n_descsz);
    }
  }
  return {};
}

bool ElfFile::is_of_this_machine() const { return header_.e_machine == kThisMachine; }

bool ElfFile::read(uint64_t offset, std::span<std::byte> into) const { return read_whole(fd_, offset, into); }

bool ElfFile::walk(uint32_t type, const std::function<void(const Elf64_Sym&, const Elf64_Shdr&)>& take,
                   int64_t until_ns) const {
  const auto table = std::ranges::find(sections_, type, &Elf64_Shdr::sh_type);  // a file has at most one
  if (table == sections_.end() || table->sh_entsize != sizeof(Elf64_Sym) || table->sh_link >= sections_.size()) {
    return true;
  }
  const Elf64_Shdr& strings = sections_[table->sh_link];
  std::vector<Elf64_Sym> symbols(kSymbolsAtOnce);
  const uint64_t count = std::min(table->sh_size / sizeof(Elf64_Sym), kMostSymbols);
  for (uint64_t first = 0; first < count; first += kSymbolsAtOnce) {
    if (until_ns != INT64_MAX && monotonic_now_ns() > until_ns) {
      return false;
    }
    const std::span some(symbols.data(), std::min<uint64_t>(kSymbolsAtOnce, count - first));
    if (!read_whole(fd_, table->sh_offset + first * sizeof(Elf64_Sym), some)) {
      return true;
    }
    for (const Elf64_Sym& symbol : some) {
      if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < strings.sh_size) {
        take(symbol, strings);
      }
    }
  }
  return true;
}

bool ElfFile::each_symbol(const std::function<void(const Elf64_Sym&, uint64_t)>& take, int64_t until_ns) const {
  const auto with_name = [&](const Elf64_Sym& symbol, const Elf64_Shdr& strings) {
    take(symbol, strings.sh_offset + symbol.st_name);
  };
  return walk(SHT_DYNSYM, with_name, until_ns) && walk(SHT_SYMTAB, with_name, until_ns);
}

std::string ElfFile::names_of(const Elf64_Shdr& strings, std::span<const std::string_view> needles) const {
  if (strings.sh_size > kMostNameBytes || strings.sh_offset > size_ || strings.sh_size > size_ - strings.sh_offset) {
    return {};
  }
  // Two passes, one to search and one to store: most files contain none of the needles, and a large hole in a file
  // costs nothing.
  size_t longest = 0;
  for (const std::string_view needle : needles) {
    longest = std::max(longest, needle.size());
  }
  const auto each_piece = [&](const auto& take) {  // pieces overlap by the longest needle
    std::vector<char> piece;
    for (uint64_t at = 0; at < strings.sh_size; at += kPieceBytes) {
      piece.resize(std::min<uint64_t>(kPieceBytes + longest, strings.sh_size - at));
      if (!read_whole(fd_, strings.sh_offset + at, std::span(piece)) ||
          take(std::string_view(piece.data(), piece.size()))) {
        return;
      }
    }
  };
  bool found = false;
  each_piece([&](std::string_view piece) {
    found = std::ranges::any_of(needles, [&](std::string_view needle) {
      return ::memmem(piece.data(), piece.size(), needle.data(), needle.size()) != nullptr;
    });
    return found;
  });
  std::string names;
  if (found) {
    names.reserve(strings.sh_size + longest);
    each_piece([&](std::string_view piece) {
      names.append(piece.substr(0, kPieceBytes));
      return false;
    });
  }
  return names;
}

void ElfFile::each_name(uint32_t type, std::span<const std::string_view> needles,
                        const std::function<void(const Elf64_Sym&, std::string_view)>& take) const {
  const auto table = std::ranges::find(sections_, type, &Elf64_Shdr::sh_type);
  if (table == sections_.end() || table->sh_link >= sections_.size()) {
    return;
  }
  // Names are found in their table: reading each symbol's own name would take a system call per symbol.
  const std::string names = names_of(sections_[table->sh_link], needles);
  if (names.empty()) {
    return;
  }
  constexpr size_t kLongestName = 4096;
  walk(type, [&](const Elf64_Sym& symbol, const Elf64_Shdr&) {
    if (symbol.st_name < names.size()) {
      const char* name = names.data() + symbol.st_name;
      take(symbol, {name, strnlen(name, std::min(kLongestName, names.size() - symbol.st_name))});
    }
  });
}

std::vector<std::optional<uint64_t>> ElfFile::symbol_values(std::span<const std::string_view> names) const {
  std::vector<std::optional<uint64_t>> values(names.size());
  for (const uint32_t type : {SHT_DYNSYM, SHT_SYMTAB}) {
    each_name(type, names, [&](const Elf64_Sym& symbol, std::string_view name) {
      const auto wanted = std::ranges::find(names, name);
      if (wanted != names.end() && !values[static_cast<size_t>(wanted - names.begin())]) {
        values[static_cast<size_t>(wanted - names.begin())] = symbol.st_value;
      }
    });
  }
  return values;
}

std::optional<uint64_t> ElfFile::section_address(std::string_view name) const {
  if (header_.e_shstrndx >= sections_.size()) {
    return std::nullopt;
  }
  const Elf64_Shdr& names = sections_[header_.e_shstrndx];
  for (const Elf64_Shdr& section : sections_) {
    if ((section.sh_flags & SHF_ALLOC) != 0 && section.sh_name < names.sh_size &&
        text_at(names.sh_offset + section.sh_name, name.size() + 2) == name) {
      return section.sh_addr;
    }
  }
  return std::nullopt;
}

std::string ElfFile::text_at(uint64_t offset, size_t limit) const {
  std::string text(limit, '\0');
  if (offset > static_cast<uint64_t>(INT64_MAX)) {
    return {};
  }
  const ssize_t got = read_at(fd_, text.data(), text.size(), static_cast<off_t>(offset));
  return got > 0 ? std::string(text.data(), strnlen(text.data(), static_cast<size_t>(got))) : std::string();
}

}  // namespace stalltrace
