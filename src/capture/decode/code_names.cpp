// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/code_names.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>

#include "base/clock.h"
#include "base/handle.h"

namespace stalltrace::capture {
namespace {

constexpr size_t kLongestName = 160;  // bytes kept; most of a long C++ name is template arguments
constexpr size_t kLongestSymbol = 300;
constexpr uint64_t kMostSections = 512;
constexpr uint64_t kMostSymbols = 1'000'000;  // of a table; libtorch_cpu.so has 200,000
constexpr size_t kSymbolsAtOnce = 2048;
constexpr size_t kNamesKept = 8192;
/// The part of each second that may be spent on names: the ring buffers fill in the meantime.
constexpr int64_t kTimeNs = 100 * kNsPerMs;
/// Mappings that were read are good for so long, and for this long also where an address is in none of them: it may be
/// of a library that was loaded since, or no address at all.
constexpr int64_t kMappingsNs = kNsPerSecond;
constexpr int64_t kNoMappingNs = 100 * kNsPerMs;

template <typename T>
bool read_at(int fd, uint64_t offset, std::span<T> into) {
  return offset <= static_cast<uint64_t>(INT64_MAX) &&
         ::pread(fd, into.data(), into.size_bytes(), static_cast<off_t>(offset)) ==
             static_cast<ssize_t>(into.size_bytes());
}

/// What is looked for, and the innermost function found so far that covers it.
struct Wanted {
  uint64_t address = 0;  // as the symbols have it; 0: in no segment
  uint64_t begin = 0;
  uint64_t name_at = 0;  // in the file
  bool found = false;
};

class Symbols {
 public:
  explicit Symbols(int fd) : fd_(fd) {}

  bool open() {
    if (!read_at(fd_, 0, std::span(&header_, 1)) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_shentsize != sizeof(Elf64_Shdr)) {
      return false;
    }
    segments_.resize(header_.e_phnum);
    sections_.resize(std::min<uint64_t>(header_.e_shnum, kMostSections));
    return read_at(fd_, header_.e_phoff, std::span(segments_)) && read_at(fd_, header_.e_shoff, std::span(sections_));
  }

  [[nodiscard]] uint64_t address_of(uint64_t file_offset) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && file_offset >= segment.p_offset &&
          file_offset - segment.p_offset < segment.p_filesz) {
        return file_offset - segment.p_offset + segment.p_vaddr;
      }
    }
    return 0;
  }

  void look_for(std::span<Wanted> wanted) const {
    for (const uint32_t type : {SHT_DYNSYM, SHT_SYMTAB}) {  // the first of each: a file has no second one
      const auto table = std::ranges::find(sections_, type, &Elf64_Shdr::sh_type);
      if (table != sections_.end() && table->sh_entsize == sizeof(Elf64_Sym) && table->sh_link < sections_.size()) {
        walk(*table, sections_[table->sh_link], wanted);
      }
    }
  }

  [[nodiscard]] std::string name_at(uint64_t offset) const {
    std::array<char, kLongestSymbol> text{};
    const ssize_t got = ::pread(fd_, text.data(), text.size() - 1, static_cast<off_t>(offset));
    return got > 0 ? std::string(text.data()) : std::string();
  }

 private:
  void walk(const Elf64_Shdr& table, const Elf64_Shdr& strings, std::span<Wanted> wanted) const {
    std::vector<Elf64_Sym> symbols(kSymbolsAtOnce);
    const uint64_t count = std::min(table.sh_size / sizeof(Elf64_Sym), kMostSymbols);
    for (uint64_t first = 0; first < count; first += kSymbolsAtOnce) {
      const std::span some(symbols.data(), std::min<uint64_t>(kSymbolsAtOnce, count - first));
      if (!read_at(fd_, table.sh_offset + first * sizeof(Elf64_Sym), some)) {
        return;
      }
      for (const Elf64_Sym& symbol : some) {
        if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
            symbol.st_name < strings.sh_size) {
          consider(symbol, strings.sh_offset + symbol.st_name, wanted);
        }
      }
    }
  }

  static void consider(const Elf64_Sym& symbol, uint64_t name_at, std::span<Wanted> wanted) {
    for (Wanted& one : wanted) {
      const bool covers = symbol.st_value <= one.address && one.address - symbol.st_value < symbol.st_size;
      if (covers && (!one.found || symbol.st_value > one.begin)) {
        one = {one.address, symbol.st_value, name_at, true};
      }
    }
  }

  int fd_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

/// Each reference to what was named before ("S_", "T1_") may double a name's length when it is written out.
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

/// A name of somebody else's file, for people: demangled, without control characters, not endless.
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

/// The mapped file itself, not another that has its path by now.
UniqueFd open_mapped(const Procfs& procfs, pid_t pid, const MappedFile& file) {
  for (const std::string& path : procfs.host_paths(pid, file)) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == file.inode) {
      return fd;
    }
  }
  return {};
}

}  // namespace

std::vector<std::optional<CodePlace>> functions_at(int fd, std::span<const uint64_t> file_offsets) {
  std::vector<std::optional<CodePlace>> places(file_offsets.size());
  Symbols symbols(fd);
  if (!symbols.open()) {
    return places;
  }
  std::vector<Wanted> wanted;
  for (const uint64_t offset : file_offsets) {
    wanted.push_back({.address = symbols.address_of(offset)});
  }
  symbols.look_for(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].address != 0 && wanted[i].found) {
      places[i] = CodePlace{readable(symbols.name_at(wanted[i].name_at)), wanted[i].address - wanted[i].begin};
    }
  }
  return places;
}

bool CodeNames::in_time() {
  const int64_t now_ns = monotonic_now_ns();
  if (now_ns - second_ns_ >= kNsPerSecond) {
    second_ns_ = now_ns;
    spent_ns_ = 0;
  }
  return spent_ns_ < kTimeNs;
}

void CodeNames::look_up(pid_t pid, const MappedFile& file, std::span<const uint64_t> offsets) {
  std::vector<uint64_t> fresh;
  const auto key = [&](uint64_t offset) { return Key{file.device_major, file.device_minor, file.inode, offset}; };
  std::ranges::copy_if(offsets, std::back_inserter(fresh), [&](uint64_t o) { return !known_.contains(key(o)); });
  if (fresh.empty() || !in_time()) {
    return;
  }
  const int64_t begun_ns = monotonic_now_ns();
  if (known_.size() + fresh.size() > kNamesKept) {
    known_.clear();
  }
  const std::string name = std::filesystem::path(file.path).filename().string();
  const UniqueFd fd = open_mapped(procfs_, pid, file);
  const auto places = fd ? functions_at(fd.get(), fresh) : std::vector<std::optional<CodePlace>>(fresh.size());
  for (size_t i = 0; i < fresh.size(); ++i) {
    known_[key(fresh[i])] = !places[i] ? fmt::format("+{:#x} ({})", fresh[i], name)
                            : places[i]->into == 0
                                ? fmt::format("{} ({})", places[i]->function, name)
                                : fmt::format("{}+{:#x} ({})", places[i]->function, places[i]->into, name);
  }
  spent_ns_ += monotonic_now_ns() - begun_ns;
}

const CodeNames::Mappings* CodeNames::mappings_of(pid_t pid, int64_t not_before_ns) {
  const auto known = mappings_.find(pid);
  if (known != mappings_.end() && known->second.read_ns >= not_before_ns) {
    return &known->second;
  }
  const int64_t now_ns = monotonic_now_ns();
  auto files = procfs_.code_mappings(pid);
  if (!files) {
    mappings_.erase(pid);
    return nullptr;
  }
  return &(mappings_[pid] = {.files = std::move(*files), .read_ns = now_ns});
}

std::vector<CodeNames::Frame> CodeNames::frames_of(const Mappings& mappings, std::span<const uint64_t> addresses) {
  std::vector<Frame> frames;
  for (const uint64_t address : addresses) {
    const uint64_t inside = address - (frames.empty() ? 0 : 1);  // a return address may begin the next function
    const auto file = std::ranges::find_if(
        mappings.files, [&](const MappedFile& mapping) { return inside >= mapping.start && inside < mapping.end; });
    if (file == mappings.files.end()) {
      break;
    }
    frames.push_back({&*file, inside - file->start + file->offset});
  }
  return frames;
}

std::string CodeNames::describe(pid_t pid, std::span<const uint64_t> addresses) {
  const int64_t now_ns = monotonic_now_ns();
  std::vector<Frame> frames;
  for (const int64_t good_ns : {kMappingsNs, kNoMappingNs}) {
    const Mappings* mappings = mappings_of(pid, now_ns - good_ns);
    if (!mappings) {
      return {};
    }
    frames = frames_of(*mappings, addresses);
    if (frames.size() == addresses.size()) {
      break;
    }
  }
  std::map<const MappedFile*, std::vector<uint64_t>> by_file;
  for (const Frame& frame : frames) {
    by_file[frame.file].push_back(frame.offset);
  }
  for (const auto& [file, offsets] : by_file) {
    look_up(pid, *file, offsets);
  }
  std::string text;
  for (const auto& [file, offset] : frames) {
    const auto known = known_.find({file->device_major, file->device_minor, file->inode, offset});
    text += text.empty() ? "" : "\n";
    text += known != known_.end()
                ? known->second
                : fmt::format("+{:#x} ({})", offset, std::filesystem::path(file->path).filename().string());
  }
  return text;
}

}  // namespace stalltrace::capture
