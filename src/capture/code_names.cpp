// SPDX-License-Identifier: Apache-2.0
#include "capture/code_names.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include "base/handle.h"
#include "base/text.h"

namespace stalltrace::capture {
namespace {

using ElfHandle = std::unique_ptr<Elf, Free<elf_end>>;

constexpr size_t kLongestName = 160;  // of a C++ name, most is template arguments

/// The nearest function that begins at or before an address.
struct Nearest {
  uint64_t address = 0;  // looked for
  uint64_t begin = 0;
  uint64_t size = 0;
  std::string name;
};

std::optional<uint64_t> virtual_address(Elf* elf, uint64_t file_offset) {
  size_t segments = 0;
  elf_getphdrnum(elf, &segments);
  for (size_t i = 0; i < segments; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) && segment.p_type == PT_LOAD && (segment.p_flags & PF_X) &&
        file_offset >= segment.p_offset && file_offset - segment.p_offset < segment.p_filesz) {
      return file_offset - segment.p_offset + segment.p_vaddr;
    }
  }
  return std::nullopt;
}

void look_through(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, std::vector<Nearest>& wanted) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (!data || header.sh_entsize == 0) {
    return;
  }
  const auto count = static_cast<int>(header.sh_size / header.sh_entsize);
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (!gelf_getsym(data, i, &symbol) || symbol.st_shndx == SHN_UNDEF || GELF_ST_TYPE(symbol.st_info) != STT_FUNC) {
      continue;
    }
    for (Nearest& nearest : wanted) {
      const bool covers = symbol.st_value <= nearest.address &&
                          (symbol.st_size == 0 || nearest.address - symbol.st_value < symbol.st_size);
      if (covers && (nearest.name.empty() || symbol.st_value > nearest.begin)) {
        const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
        nearest.begin = symbol.st_value;
        nearest.name = name ? name : "";
      }
    }
  }
}

/// A name of somebody else's file, for people: demangled, without control characters, not endless.
std::string readable(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, Free<std::free>> demangled(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status));
  std::string name = status == 0 && demangled ? demangled.get() : symbol;
  if (name.size() > kLongestName) {
    name = name.substr(0, kLongestName) + "...";
  }
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return name;
}

}  // namespace

std::vector<std::optional<CodePlace>> functions_at(const std::string& path, std::span<const uint64_t> file_offsets) {
  std::vector<std::optional<CodePlace>> places(file_offsets.size());
  elf_version(EV_CURRENT);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const ElfHandle elf(fd ? elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr) : nullptr);
  if (!elf || elf_kind(elf.get()) != ELF_K_ELF) {
    return places;
  }
  std::vector<Nearest> wanted;
  for (const uint64_t offset : file_offsets) {
    wanted.push_back({.address = virtual_address(elf.get(), offset).value_or(0)});
  }
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf.get(), section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) && (header.sh_type == SHT_DYNSYM || header.sh_type == SHT_SYMTAB)) {
      look_through(elf.get(), section, header, wanted);
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].address != 0 && !wanted[i].name.empty()) {
      places[i] = CodePlace{readable(wanted[i].name), wanted[i].address - wanted[i].begin};
    }
  }
  return places;
}

std::string describe_frames(const Procfs& procfs, pid_t pid, std::span<const uint64_t> addresses) {
  const auto mappings = procfs.code_mappings(pid);
  if (!mappings || addresses.empty()) {
    return {};
  }
  struct Frame {
    const MappedFile* file = nullptr;
    uint64_t offset = 0;
    std::string text;
  };
  std::vector<Frame> frames;
  std::map<const MappedFile*, std::vector<size_t>> by_file;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const uint64_t inside = addresses[i] - (i == 0 ? 0 : 1);  // a return address may begin the next function
    const auto file = std::ranges::find_if(
        *mappings, [&](const MappedFile& mapping) { return inside >= mapping.start && inside < mapping.end; });
    if (file == mappings->end()) {
      break;
    }
    by_file[&*file].push_back(i);
    frames.push_back({&*file, inside - file->start + file->offset, {}});
  }
  for (const auto& [file, indices] : by_file) {
    std::vector<uint64_t> offsets;
    for (const size_t index : indices) {
      offsets.push_back(frames[index].offset);
    }
    std::vector<std::optional<CodePlace>> places(indices.size());
    for (const std::string& path : procfs.host_paths(pid, *file)) {
      places = functions_at(path, offsets);
      if (std::ranges::any_of(places, [](const auto& place) { return place.has_value(); })) {
        break;
      }
    }
    const std::string name = std::filesystem::path(file->path).filename().string();
    for (size_t i = 0; i < indices.size(); ++i) {
      const auto& place = places[i];
      frames[indices[i]].text = !place             ? fmt::format("+{:#x} ({})", offsets[i], name)
                                : place->into == 0 ? fmt::format("{} ({})", place->function, name)
                                                   : fmt::format("{}+{:#x} ({})", place->function, place->into, name);
    }
  }
  std::string text;
  for (const Frame& frame : frames) {
    text += (text.empty() ? "" : "\n") + frame.text;
  }
  return text;
}

}  // namespace stalltrace::capture
