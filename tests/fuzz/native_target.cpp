// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reading of native stacks, by the first byte: a process's unwind tables, code and stack; its perf map; a
// symbol's name; what the child that reads names sends. Frames are in mapped code, and names short and printable.
#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/elf/function_names.h"
#include "base/handle.h"
#include "base/text.h"
#include "base/untrusted/function_name_reader.h"
#include "stacks/native/code_map.h"
#include "stacks/native/perf_map.h"
#include "stacks/native/unwinder.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using namespace stalltrace::stacks;
using fuzz::Input;
using fuzz::require;

namespace {

constexpr int64_t kMostNs = 30 * kNsPerSecond;  // never reached: a reading that ends by its time could not be repeated
constexpr size_t kLongestName = 163;            // with "..."

/// A library at kCode, its copy without a file at kMadeCode, and a stack.
class SmallProcess final : public Memory {
 public:
  static constexpr uint64_t kCode = 0x400000;
  static constexpr uint64_t kMadeCode = 0x500000;
  static constexpr uint64_t kStack = 0x7ff000000000;
  static constexpr std::string_view kMaps =
      "400000-410000 r-xp 00000000 08:01 7 /usr/lib/libtrain.so\n"
      "500000-510000 r-xp 00000000 00:00 0 \n";

  SmallProcess(std::span<const uint8_t> code, std::span<const uint8_t> stack) : code_(code), stack_(stack) {}

  bool read(uint64_t address, std::span<std::byte> into) override {
    using Part = std::pair<uint64_t, std::span<const uint8_t>>;
    for (const auto& [at, bytes] : std::array{Part(kCode, code_), Part(kMadeCode, code_), Part(kStack, stack_)}) {
      if (address >= at && address - at < kBytes && into.size() <= kBytes - (address - at)) {
        std::ranges::fill(into, std::byte{0});
        const auto held = bytes.subspan(std::min<size_t>(address - at, bytes.size()));
        std::ranges::copy(std::as_bytes(held.first(std::min(held.size(), into.size()))), into.begin());
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr uint64_t kBytes = 0x10000;
  std::span<const uint8_t> code_;
  std::span<const uint8_t> stack_;
};

std::vector<uint64_t> addresses_of(const Unwound& unwound) {
  std::vector<uint64_t> addresses;
  for (const CodeAddress& frame : unwound.frames) {
    addresses.push_back(frame.address);
  }
  return addresses;
}

void read_stack(Input input) {
  const uint64_t start = input.number(1) % 2 == 0 ? SmallProcess::kCode : SmallProcess::kMadeCode;
  const uint64_t ip = start + input.number(2);
  const uint64_t sp = SmallProcess::kStack + input.number(2);
  const auto stack = input.sized_piece();
  const std::string_view code = input.text();
  SmallProcess memory({reinterpret_cast<const uint8_t*>(code.data()), code.size()}, stack);
  BoundedMemory of_stack(memory, {.most_ns = kMostNs});
  BoundedMemory of_code(memory, {.most_ns = kMostNs});
  UnwindTables tables(of_code);
  const CodeMap map = CodeMap::parse(SmallProcess::kMaps);
  const Unwound unwound = unwind({.sp = sp, .ip = ip}, map, of_stack, of_code, tables);
  require(!unwound.frames.empty() && unwound.frames.size() <= kMostNativeFrames && unwound.frames[0].address == ip);
  for (const CodeAddress& frame : unwound.frames) {
    require(frame.region != nullptr && frame.address >= frame.region->mapping.start &&
            frame.address < frame.region->mapping.end);
  }
  const Unwound again = unwind({.sp = sp, .ip = ip}, map, of_stack, of_code, tables);
  require(again.whole == unwound.whole && addresses_of(again) == addresses_of(unwound));
  if (const auto rules = tables.at(SmallProcess::kCode, ip)) {
    require(rules->base < kRegisters);
  }
}

void read_perf_map(Input input) {
  std::vector<uint64_t> addresses;
  for (uint64_t left = input.number(1); left > 0; --left) {
    addresses.push_back(input.number(4));
  }
  const auto names = names_in_perf_map(input.text(), addresses, kMostNs);
  require(names && names->size() <= addresses.size());
  std::string again;
  for (const auto& [address, name] : *names) {
    require(std::ranges::find(addresses, address) != addresses.end());
    require(!name.empty() && name.size() <= kLongestName && printable(name) == name);
    again += fmt::format("{:x} 1 {}\n", address, name);
  }
  const auto second = names_in_perf_map(again, addresses, kMostNs);
  require(second && second->size() == names->size());
}

/// A library for this machine with one function of this name.
std::string library_with(std::string_view name, uint64_t size) {
  struct {
    Elf64_Ehdr header{};
    Elf64_Phdr segment{};
    std::array<Elf64_Shdr, 3> sections{};
    std::array<Elf64_Sym, 2> symbols{};
  } file;
#if defined(__aarch64__)
  file.header.e_machine = EM_AARCH64;
#else
  file.header.e_machine = EM_X86_64;
#endif
  std::memcpy(file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_CLASS] = ELFCLASS64;
  file.header.e_ident[EI_DATA] = ELFDATA2LSB;
  file.header.e_phoff = offsetof(decltype(file), segment);
  file.header.e_phentsize = sizeof(Elf64_Phdr);
  file.header.e_phnum = 1;
  file.header.e_shoff = offsetof(decltype(file), sections);
  file.header.e_shentsize = sizeof(Elf64_Shdr);
  file.header.e_shnum = file.sections.size();
  file.segment.p_type = PT_LOAD;
  file.segment.p_flags = PF_R | PF_X;
  file.segment.p_filesz = file.segment.p_memsz = size;
  file.sections[1].sh_type = SHT_SYMTAB;
  file.sections[1].sh_offset = offsetof(decltype(file), symbols);
  file.sections[1].sh_size = sizeof file.symbols;
  file.sections[1].sh_entsize = sizeof(Elf64_Sym);
  file.sections[1].sh_link = 2;
  file.sections[2].sh_type = SHT_STRTAB;
  file.sections[2].sh_offset = sizeof file;
  file.sections[2].sh_size = name.size() + 2;
  file.symbols[1].st_name = 1;
  file.symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  file.symbols[1].st_shndx = 1;
  file.symbols[1].st_size = size;
  std::string bytes(reinterpret_cast<const char*>(&file), sizeof file);
  return bytes + '\0' + std::string(name) + '\0';
}

void read_symbol(std::string_view name) {
  constexpr uint64_t kInto = 0x10;
  const std::string bytes = library_with(name, 2 * kInto);
  const UniqueFd fd(::memfd_create("elf", MFD_CLOEXEC));
  require(fd && ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const auto locations = functions_at(fd.get(), std::array{kInto});
  require(locations.size() == 1 && locations[0].has_value() && locations[0]->into == kInto);
  const std::string& function = locations[0]->function;
  require(function.size() <= kLongestName && printable(function) == function);
  const auto received = locations_from_bytes(locations_to_bytes(locations), 1);
  require(received && received->at(0) && received->at(0)->into == kInto);
}

void read_answer(Input input) {
  const size_t offsets = input.number(1);
  std::string_view bytes = input.text();
  if (const auto code = addresses_from_bytes(bytes, offsets)) {
    const std::string sent = addresses_to_bytes(*code);
    std::string_view rest = sent;
    const auto again = addresses_from_bytes(rest, offsets);
    require(again && rest.empty() && again->build_id == code->build_id && again->addresses == code->addresses);
  }
  if (const auto locations = locations_from_bytes(bytes, offsets)) {
    require(locations->size() == offsets);
    const std::string sent = locations_to_bytes(*locations);
    const auto again = locations_from_bytes(sent, offsets);
    require(again && locations_to_bytes(*again) == sent);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  switch (input.number(1) % 4) {
    case 0:
      read_stack(input);
      break;
    case 1:
      read_perf_map(input);
      break;
    case 2:
      read_symbol(input.text());
      break;
    default:
      read_answer(input);
  }
  return 0;
}
