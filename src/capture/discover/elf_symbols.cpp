// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/elf_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/handle.h"
#include "plugin/wire/marker.h"

namespace stalltrace::capture {
namespace {

using ElfHandle = std::unique_ptr<Elf, Free<elf_end>>;

/// Names that every file of interest defines at least one of: a search for them in the string table rules most files
/// out without walking hundreds of thousands of symbols.
constexpr std::array<std::string_view, 8> kSentinels{
    "ncclAllReduce",         "MPI_Allreduce",       "_ZN4gloo9allreduceE",  "_ZN4c10d16ProcessGroupGloo7runLoopE",
    "cudaStreamSynchronize", "cuStreamSynchronize", "hipStreamSynchronize", ST_MARKER_FUNCTION};

/// MPICH, and what shares its binary interface (Intel MPI, MVAPICH, Cray MPI), must define this function: programs call
/// it by mpi.h's MPI_DUP_FN. OpenMPI's is OMPI_C_MPI_DUP_FN.
constexpr std::string_view kOfIntHandles = "MPIR_Dup_fn";

const std::unordered_map<std::string_view, uint32_t>& rows_by_symbol() {
  static const auto rows = [] {
    std::unordered_map<std::string_view, uint32_t> result;
    const auto table = call_table();
    for (uint32_t row = 0; row < table.size(); ++row) {
      result.emplace(table[row].symbol, row);
    }
    return result;
  }();
  return rows;
}

bool may_define_calls(Elf* elf, size_t string_section) {
  Elf_Scn* section = elf_getscn(elf, string_section);
  const Elf_Data* data = section ? elf_getdata(section, nullptr) : nullptr;
  if (!data || !data->d_buf) {
    return false;
  }
  return std::any_of(kSentinels.begin(), kSentinels.end(), [&](std::string_view name) {
    return memmem(data->d_buf, data->d_size, name.data(), name.size()) != nullptr;
  });
}

class SymbolCollector {
 public:
  explicit SymbolCollector(Elf* elf) : elf_(elf) { elf_getphdrnum(elf, &segments_); }

  /// Takes the table's rows from one symbol section; `accept` filters by family.
  template <typename Accept>
  void collect(Elf_Scn* section, const GElf_Shdr& header, const Accept& accept) {
    Elf_Data* data = elf_getdata(section, nullptr);
    if (!data || header.sh_entsize == 0 || !may_define_calls(elf_, header.sh_link)) {
      return;
    }
    const auto count = static_cast<int>(header.sh_size / header.sh_entsize);
    for (int i = 0; i < count; ++i) {
      GElf_Sym symbol;
      if (!gelf_getsym(data, i, &symbol) || symbol.st_shndx == SHN_UNDEF) {
        continue;
      }
      const char* name = elf_strptr(elf_, header.sh_link, symbol.st_name);
      note_marker(name ? name : "", symbol.st_value);
      int_handles_ |= name && name == kOfIntHandles;
      if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC) {
        continue;
      }
      const auto found = name ? rows_by_symbol().find(name) : rows_by_symbol().end();
      if (found == rows_by_symbol().end() || !accept(call_table()[found->second].family)) {
        continue;
      }
      if (const auto offset = file_offset(symbol.st_value, PF_X)) {
        add({behind_load(*offset), found->second});
      }
    }
  }

  FileSymbols take() {
    if (marker_.function_offset != 0 && marker_.semaphore_offset != 0) {
      result_.marker = marker_;
    }
    for (ProbePoint& point : result_.points) {
      point.int_handles = int_handles_ && call_table()[point.row].spec.library == static_cast<__u8>(Library::kMpi);
    }
    return std::move(result_);
  }
  [[nodiscard]] bool has_collectives() const { return result_.has_collectives; }

 private:
  /// Where a loaded segment with the permission `flag` has the address.
  [[nodiscard]] std::optional<uint64_t> file_offset(uint64_t address, uint32_t flag) const {
    for (size_t i = 0; i < segments_; ++i) {
      GElf_Phdr segment;
      if (gelf_getphdr(elf_, static_cast<int>(i), &segment) && segment.p_type == PT_LOAD && (segment.p_flags & flag) &&
          address >= segment.p_vaddr && address < segment.p_vaddr + segment.p_filesz) {
        return address - segment.p_vaddr + segment.p_offset;
      }
    }
    return std::nullopt;
  }

  /// Where a function that begins with "mov disp32(%rip), %rax; push" is probed: at the push, which the kernel does by
  /// itself (Linux 4.16), where the load costs it a second trap for a single step. Arguments and stack pointer are
  /// still as they came.
  [[nodiscard]] uint64_t behind_load(uint64_t offset) const {
    constexpr std::array<unsigned char, 3> kLoad{0x48, 0x8b, 0x05};
    constexpr size_t kLoadBytes = 7;
    constexpr unsigned char kRexB = 0x41;  // before a push of r8 to r15
    GElf_Ehdr header;
    size_t size = 0;
    const auto* file = reinterpret_cast<const unsigned char*>(elf_rawfile(elf_, &size));
    if (!file || size < kLoadBytes + 2 || offset > size - kLoadBytes - 2 || !gelf_getehdr(elf_, &header) ||
        header.e_machine != EM_X86_64 || !std::equal(kLoad.begin(), kLoad.end(), file + offset)) {
      return offset;
    }
    const unsigned char* next = file + offset + kLoadBytes;
    const unsigned char opcode = next[0] == kRexB ? next[1] : next[0];
    return opcode >= 0x50 && opcode <= 0x57 ? offset + kLoadBytes : offset;
  }

  void note_marker(std::string_view name, uint64_t address) {
    if (name == ST_MARKER_FUNCTION) {
      marker_.function_offset = file_offset(address, PF_X).value_or(0);
    } else if (name == ST_MARKER_SEMAPHORE) {
      marker_.semaphore_offset = file_offset(address, PF_W).value_or(0);
    }
  }

  void add(ProbePoint point) {
    const bool known = std::any_of(result_.points.begin(), result_.points.end(),
                                   [&](const ProbePoint& other) { return other.offset == point.offset; });
    if (!known) {
      result_.points.push_back(point);
    }
    result_.has_collectives |= call_table()[point.row].family == CallFamily::kCollectiveLibrary;
  }

  Elf* elf_;
  size_t segments_ = 0;
  MarkerPoint marker_;
  bool int_handles_ = false;
  FileSymbols result_;
};

}  // namespace

Result<FileSymbols> find_probe_points(const std::string& path) {
  if (elf_version(EV_CURRENT) == EV_NONE) {
    return fail("libelf is older than this program");
  }
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return fail_errno("open " + path, errno);
  }
  const ElfHandle elf(elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr));
  if (!elf || elf_kind(elf.get()) != ELF_K_ELF) {
    return fail(path + ": not an ELF file", {}, ErrorKind::kCorrupt);
  }
  SymbolCollector collector(elf.get());
  const auto each_section = [&](uint32_t type, const auto& accept) {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf.get(), section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) && header.sh_type == type) {
        collector.collect(section, header, accept);
      }
    }
  };
  each_section(SHT_DYNSYM, [](CallFamily) { return true; });
  // A collective library carries the GPU runtime inside, under local names: those are its own calls, not the job's.
  const bool is_collective_library = collector.has_collectives();
  each_section(SHT_SYMTAB,
               [&](CallFamily family) { return family == CallFamily::kCollectiveLibrary || !is_collective_library; });
  return collector.take();
}

}  // namespace stalltrace::capture
